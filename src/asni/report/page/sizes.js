// Accuracy against nonzeros, one line per method, over all recipes that differ only in sparsity.

const MARKS = {
  o: "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z",
  s: "M-3.7 -3.7h7.4v7.4h-7.4Z",
  "^": "M0 -4.8L4.8 3.6H-4.8Z",
  D: "M0 -5L5 0L0 5L-5 0Z",
  v: "M0 4.8L4.8 -3.6H-4.8Z",
  P: "M-1.7 -4.8h3.4v3.1h3.1v3.4h-3.1v3.1h-3.4v-3.1h-3.1v-3.4h3.1Z",
  X: "M0 -2.1L2.6 -4.7L4.7 -2.6L2.1 0L4.7 2.6L2.6 4.7L0 2.1L-2.6 4.7L-4.7 2.6L-2.1 0L-4.7 -2.6L-2.6 -4.7Z",
};

function drawnMark(look, x, y) {
  const place = { d: MARKS[look.marker], transform: `translate(${x} ${y})` };
  return drawing("path", { class: "series mark", colour: look.colour, ...place });
}

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
    overSeeds({ runs }).map((row) => ({
      ...row,
      look: stages[row.stage],
      name: stages[row.stage].title + (row.precision === "fp32" ? "" : `, ${row.precision}`),
    }));
  const ends = family.map(({ runs }) => runs.filter(({ stage }) => stages[stage].last));
  const isDense = ({ stage }) => stage === "dense";
  return {
    points: ends.flatMap((runs) => rows(runs.filter((run) => !isDense(run)))),
    // A dense training does not depend on the sparsity: it is the same in all these recipes, so each seed counts once.
    levels: rows(ends.flat().filter(isDense)),
    again: ends.flatMap((runs) => overSeeds({ runs })).flatMap(({ again }) => again),
  };
}

/** Null if all sparse networks have one size: those are ranked. */
function sizesView(group, groups) {
  const family = groups.filter((each) => each.family === group.family);
  const { points, levels, again } = sizesOf(family);
  if (haveOneSize(points)) return null;
  const looks = new Map([...levels, ...points].map(({ stage, look }) => [stage, look]));
  const methods = switches(
    "size",
    "methods",
    [...looks].map(([stage, look]) => ({
      value: stage,
      text: look.title,
      line: lineKey(look, ...(stage === "dense" ? [] : [drawnMark(look, 15, 6)])),
    })),
    () => chart.redraw(),
  );
  const on = ({ stage }) => methods.on(stage);
  const chart = sizesChart(() => ({ points: points.filter(on), levels: levels.filter(on) }));
  return element(
    "div",
    { class: "card" },
    element("h3", {}, "Test accuracy (%) against nonzeros"),
    chart.place,
    methods.view,
    ...sizesNotes(family, [...levels, ...points]),
    ...againNotes(again),
  );
}

function sizesNotes(family, rows) {
  const several = rows.some(({ seeds }) => seeds > 1);
  const missing = rows.flatMap(({ name, runs }) =>
    runs.filter((run) => !isDrawable(run)).map(({ seed }) => `${name}, seed ${seed}`),
  );
  const notes = [
    several && "Large marks: means over seeds; small dots: single seeds.",
    family.length > 1 && `Recipes in this chart: ${family.map(({ recipe }) => recipe).join(", ")}.`,
    missing.length && `NaN, so neither the seed nor its mean is drawn: ${missing.join("; ")}.`,
  ];
  return notes.filter(Boolean).map((note) => element("p", { class: "quiet" }, note));
}

/** `series()` returns the points and levels to draw, as `sizesOf` does. */
function sizesChart(series) {
  return readableChart("test accuracy (percent) against nonzeros", (width, height) => {
    const { points, levels } = series();
    const means = points.filter(isDrawable).sort((a, b) => a.nonzeros - b.nonzeros || b.accuracy - a.accuracy);
    const level = levels.filter(isDrawable);
    const seeds = points.flatMap(({ look, runs }) => runs.filter(isDrawable).map((run) => ({ ...run, look })));
    const sizes = seeds.map(({ nonzeros }) => nonzeros);
    const { low, high, marked } = sizeTicks(sizes, width / 90);
    const [bottom, top] = rangeAround([...seeds, ...level].map(({ accuracy }) => accuracy));
    const x = logAxis(low, high, MARGIN.left, width - MARGIN.right),
      y = axis(bottom, top, height - MARGIN.bottom, MARGIN.top);
    const drawn = [
      ...level.map((row) => drawnLine({ look: row.look, x: [low, high], y: [row.accuracy, row.accuracy] }, x, y)),
      ...methodLines(means).map((line) => drawnLine(line, x, y)),
      ...seeds.map((run) => drawnSeed(run, x, y)),
      ...means.map((row) => drawnMark(row.look, x(row.nonzeros), y(row.accuracy))),
    ];
    return {
      parts: [
        ...frame(width, height, x, y, marked, ticks(bottom, top, 5), { x: "nonzero parameters" }),
        clipped(width, height, drawn),
      ],
      stops: {
        count: means.length,
        at: (index) => ({ x: x(means[index].nonzeros), y: y(means[index].accuracy) }),
        tip: (index) => sizeTip(means[index], level),
      },
    };
  });
}

function drawnSeed({ look, nonzeros, accuracy }, x, y) {
  return drawing("circle", { class: "series seed", colour: look.colour, r: 2, cx: x(nonzeros), cy: y(accuracy) });
}

/** One line through the means of each method and precision. */
function methodLines(means) {
  const lines = new Map();
  for (const { name, look, nonzeros, accuracy } of means) {
    if (!lines.has(name)) lines.set(name, { look, x: [], y: [] });
    lines.get(name).x.push(nonzeros);
    lines.get(name).y.push(accuracy);
  }
  return [...lines.values()].filter((line) => line.x.length > 1);
}

function sizeTip(row, levels) {
  const spread = row.spread === null ? "" : ` ± ${row.spread.toFixed(2)}`;
  const over = row.seeds > 1 ? `mean of ${row.seeds} seeds` : `seed ${row.runs[0].seed}`;
  return [
    element("b", {}, `${row.name}, ${whole(row.nonzeros)} nonzeros`),
    ...tipLines(
      [
        { name: over, text: percent(row.accuracy) + spread },
        ...levels.map((level) => ({ name: level.name, look: level.look, text: percent(level.accuracy) })),
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
