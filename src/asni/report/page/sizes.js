// Accuracy against nonzeros, one line per method, over all recipes that differ only in sparsity.

function isDrawable({ accuracy, nonzeros }) {
  return accuracy !== "NaN" && nonzeros > 0;
}

/**
 * The rows of `overSeeds` for the final networks of each method, with a name and a look: `points` of sparse networks
 * and `levels` of dense ones. `again` are the runs that repeat a seed within their recipe.
 */
function sizesOf(family) {
  const stages = Object.assign({}, ...family.map((each) => each.stages));
  const rows = (runs) =>
    overSeeds({ runs }).map((row) => {
      const name = methodName(stages[row.stage], row);
      return { ...row, look: stages[row.stage], name, label: markedName(name, row.runs) };
    });
  const ends = family.map(({ runs }) => runs.filter(({ stage }) => stages[stage].last));
  const isDense = ({ stage }) => stage === "dense";
  return {
    points: ends.flatMap((runs) => rows(runs.filter((run) => !isDense(run)))),
    // A dense training does not depend on the sparsity: it is the same in all these recipes, so each seed counts once.
    levels: rows(ends.flat().filter(isDense)),
    again: ends.flatMap((runs) => overSeeds({ runs })).flatMap(({ again }) => again),
  };
}

/** Null if all sparse networks have one size: those are ranked. The first recipe of a family shows all of it. */
function sizesView(group, groups) {
  const family = groups.filter((each) => each.family === group.family);
  if (family[0] !== group) return null;
  const { points, levels, again } = sizesOf(family);
  if (haveOneSize(points)) return null;
  const redraw = () => chart.redraw();
  const stages = [...new Set([...levels, ...points].map(({ stage }) => stage))];
  const methods = switches("size", "methods", sizeChoices(stages, [...levels, ...points]), redraw);
  const whole = switches("size-range", "axis", [{ value: "whole", text: "whole range", off: true }], redraw);
  const on = ({ stage }) => methods.on(stage);
  const below = element("p", { class: "caption" });
  const chart = sizesChart(
    () => ({ points: points.filter(on), levels: levels.filter(on), isWhole: whole.on("whole") }),
    (cut) => {
      whole.view.hidden = !cut.length && !whole.on("whole");
      const least = new Map();
      for (const { label, accuracy } of cut) least.set(label, Math.min(accuracy, least.get(label) ?? Infinity));
      const names = [...least].map(([label, accuracy]) => `${label}, ${percent(accuracy)}`);
      below.textContent = names.length ? `Below the axis: ${names.join("; ")}.` : "";
    },
  );
  return element(
    "div",
    { class: "card" },
    element("h3", {}, markedTitle("Test accuracy (%) against nonzeros", group.runs)),
    chart.place,
    below,
    whole.view,
    folded(methods.view, stages.length, "methods"),
    ...sizesNotes(family, [...levels, ...points]),
    ...againNotes(again),
  );
}

function sizeChoices(stages, rows) {
  return stages.map((stage) => {
    const own = rows.filter((row) => row.stage === stage);
    const { look } = own[0];
    return {
      value: stage,
      text: markedName(
        look.title,
        own.flatMap(({ runs }) => runs),
      ),
      line: lineKey(look, ...(stage === "dense" ? [] : [drawnMark(look, 15, 6)])),
    };
  });
}

function sizesNotes(family, rows) {
  const several = rows.some(({ seeds }) => seeds > 1);
  const missing = rows.flatMap(({ name, runs }) =>
    runs.filter((run) => !isDrawable(run)).map(({ seed }) => `${name}, seed ${seed}`),
  );
  const notes = [
    several && "Large marks: means over seeds; small dots: single seeds.",
    family.length > 1 && `Recipes in this chart: ${family.map(({ heading }) => heading).join(", ")}.`,
    missing.length && `NaN, so neither the seed nor its mean is drawn: ${missing.join("; ")}.`,
  ];
  return notes.filter(Boolean).map((note) => element("p", { class: "quiet" }, note));
}

/**
 * `series()` returns the points and levels to draw, as `sizesOf` does, and whether the axis must hold all of them.
 * `seen` is called with the means and seeds that are below the axis.
 */
function sizesChart(series, seen) {
  return readableChart("test accuracy (percent) against nonzeros", (width) => {
    const plot = sizesPlot(series(), width);
    const { area, x, y, means, level, seeds, cut, lines } = plot;
    seen(cut);
    const drawn = [
      ...level.map((row) => drawnLine({ look: row.look, x: plot.across, y: [row.accuracy, row.accuracy] }, x, y)),
      ...lines.filter((line) => line.x.length > 1).map((line) => drawnLine(line, x, y)),
      ...seeds.map((run) => drawnSeed(run, x, y)),
      ...means.map((row) => drawnMark(row.look, x(row.nonzeros), y(row.accuracy), isFaint(row.runs))),
    ];
    const best = means.reduce((a, b) => (b.accuracy > a.accuracy ? b : a), means[0]);
    return {
      height: area.height,
      parts: [
        ...frame(area, x, y, plot.marked, ticks(...plot.range, 5), { x: "nonzero parameters", format: whole }),
        clipped(area, drawn),
        ...arrowsBelow(
          cut.map((run) => ({ x: x(run.nonzeros), value: run.accuracy, look: run.look })),
          area,
        ),
        ...sizeLabels(plot, width),
      ],
      stops: {
        count: means.length,
        resting: means.indexOf(best),
        at: (index) => ({ x: x(means[index].nonzeros), y: Math.min(area.bottom, y(means[index].accuracy)) }),
        values: (index) => sizeValues(means[index], level),
      },
    };
  });
}

/** What is drawn, and the axes for it. */
function sizesPlot({ points, levels, isWhole }, width) {
  const means = points.filter(isDrawable).sort((a, b) => a.nonzeros - b.nonzeros || b.accuracy - a.accuracy);
  const level = levels.filter(isDrawable);
  const seeds = points.flatMap(({ label, look, runs }) =>
    runs.filter(isDrawable).map((run) => ({ ...run, label, look })),
  );
  const sizes = seeds.map(({ nonzeros }) => nonzeros);
  const { low, high, marked } = sizeTicks(sizes, width / 90);
  const range = sizesRange(seeds, level, isWhole);
  const lines = sizeLines(means);
  const names = [...level.map(({ label }) => label), ...lines.map(({ name }) => name)];
  const margin = labelMargin(width, names);
  const area = areaOf(width, margin ?? MARGIN.right);
  return {
    ...{ means, level, seeds, lines, marked, range, margin, area },
    across: [low, high],
    cut: [...means, ...seeds].filter(({ accuracy }) => accuracy < range[0]),
    x: logAxis(low, high, area.left, area.right),
    y: axis(...range, area.bottom, area.top),
  };
}

/** The names of the levels and of the methods, where they fit. */
function sizeLabels({ level, lines, margin, area, x, y }, width) {
  if (margin === null) return [];
  const levels = level.map(({ label, look, accuracy }) => ({ name: label, look, x: area.right, y: y(accuracy) }));
  return endLabels([...levels, ...lineEnds(lines, x, y)], area, width);
}

/** Around all seeds; those at chance would squeeze the others. */
function sizesRange(seeds, levels, isWhole) {
  const telling = seeds.filter((run) => isWhole || !isAstray([run]));
  return rangeAround([...(telling.length ? telling : seeds), ...levels].map(({ accuracy }) => accuracy));
}

function drawnSeed({ look, nonzeros, accuracy }, x, y) {
  return drawing("circle", { class: "series seed", colour: look.colour, r: 2, cx: x(nonzeros), cy: y(accuracy) });
}

/** The means of each method and precision, from the smallest network to the largest. */
function sizeLines(means) {
  const lines = new Map();
  for (const { name, look, nonzeros, accuracy, runs } of means) {
    if (!lines.has(name)) lines.set(name, { look, x: [], y: [], runs: [] });
    const line = lines.get(name);
    line.x.push(nonzeros);
    line.y.push(accuracy);
    line.runs.push(...runs);
  }
  return [...lines].map(([name, line]) => ({ ...line, name: markedName(name, line.runs) }));
}

function sizeValues(row, levels) {
  const spread = row.spread === null ? "" : ` ± ${row.spread.toFixed(2)}`;
  const over = row.seeds > 1 ? `mean of ${row.seeds} seeds` : `seed ${row.runs[0].seed}`;
  return [
    element("b", {}, `${row.label}, ${whole(row.nonzeros)} nonzeros`),
    ...valueRows(
      [
        { name: over, text: percent(row.accuracy) + spread },
        ...levels.map((level) => ({ name: level.label, look: level.look, text: percent(level.accuracy) })),
      ],
      ({ text }) => text,
    ),
  ];
}

/** Axis limits around the measured sizes, and ticks at as many of them as fit, the most common first. */
function sizeTicks(sizes, most) {
  if (!sizes.length) return { low: 1, high: 10, marked: [] };
  const smallest = lowest(sizes),
    largest = highest(sizes);
  const apart = Math.max(1.2, (largest / smallest) ** (1 / most));
  const times = new Map();
  for (const size of sizes) times.set(size, (times.get(size) ?? 0) + 1);
  const marked = [];
  for (const [size] of [...times].sort((a, b) => b[1] - a[1] || a[0] - b[0])) {
    if (marked.every((other) => Math.max(size / other, other / size) >= apart)) marked.push(size);
  }
  return { low: smallest / apart ** 0.5, high: largest * apart ** 0.5, marked };
}
