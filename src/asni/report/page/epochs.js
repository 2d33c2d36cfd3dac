// A chart over epochs: lines with bands over seeds in one frame, or each in its own.

let madeCharts = 0;

/**
 * Lines over the epochs up to `last`. `series()` returns the lines to draw: [{name, look, x, y}], with `low`, `high`
 * and `seeds` as of `meanLines`, or with `dots` in place of a line. `seen(lines, range)` is called when they are drawn.
 */
function epochChart({ label, last, range, series, bySeed = () => false, seen = () => {} }) {
  const id = `others-${++madeCharts}`;
  return readableChart(`${label} over epochs`, (width) => {
    const lines = series();
    const [low, high] = range(lines);
    seen(lines, [low, high]);
    const draw = lines.length > MOST_HUES ? multiples : overlaid;
    return draw(width, lines, { low, high, last, id, bySeed: bySeed() });
  });
}

/** All lines in one chart, with their names at their ends. */
function overlaid(width, lines, view) {
  const { low, high, last } = view;
  const margin = labelMargin(width, lines.map(({ name }) => name));
  const area = areaOf(width, margin ?? MARGIN.right);
  const x = axis(0, Math.max(last, 1), area.left, area.right),
    y = axis(low, high, area.bottom, area.top);
  const across = ticks(0, Math.max(last, 1), width / 70).filter(Number.isInteger);
  const drawn = lines.flatMap((line) => (line.dots ? drawnDots(line, x, y) : bandAndLine(line, x, y, view)));
  const epochs = measuredEpochs(lines, last);
  return {
    height: area.height,
    parts: [
      ...frame(area, x, y, across, ticks(low, high, 5), { x: "epoch" }),
      clipped(area, drawn),
      ...arrowsOfLines(lines, low, x, area),
      ...(margin === null ? [] : endLabels(lineEnds(lines, x, y), area, width)),
    ],
    stops: {
      count: epochs.length,
      at: (stop) => ({ x: x(epochs[stop]) }),
      cursor: (stop, isRead) => (isRead ? epochCursor(lines, epochs[stop], x, y, area) : []),
      values: (stop) => epochValues(lines, epochs[stop], view),
    },
  };
}

/** The epochs in the data, not all up to the last: its number comes from a file and may be huge. */
function measuredEpochs(lines, last) {
  const epochs = new Set(lines.flatMap((line) => line.x));
  return [...epochs].filter((epoch) => epoch <= last).sort((a, b) => a - b);
}

/** The band, the single seeds if they are asked for, and the mean in front of them. */
function bandAndLine(line, x, y, { bySeed }) {
  const { look, seeds = [] } = line;
  const path = (kind, d) => drawing("path", { class: `series ${kind}`, colour: look.colour, d });
  const parts = seeds.length > 1 ? [path("band", bandPath(line, x, y))] : [];
  if (seeds.length > 1 && bySeed) parts.push(...seeds.map((seed) => path("single", linePath(seed.x, seed.y, x, y))));
  parts.push(drawnLine(line, x, y));
  return line.faint ? [drawing("g", { class: "faint" }, ...parts)] : parts;
}

/** From the lowest to the highest seed; a missing value is a gap. */
function bandPath({ x: xs, low, high }, x, y) {
  let path = "";
  for (let start = 0; start < xs.length; start++) {
    let end = start;
    while (end < xs.length && low[end] !== null) end++;
    if (end - start > 1) {
      const along = (values, from, to, step) => {
        let points = "";
        for (let index = from; index !== to; index += step)
          points += `L${x(xs[index]).toFixed(2)} ${y(values[index]).toFixed(2)}`;
        return points;
      };
      path += `M${(along(high, start, end, 1) + along(low, end - 1, start - 1, -1)).slice(1)}Z`;
    }
    start = end;
  }
  return path;
}

function drawnDots({ x: xs, y: ys }, x, y) {
  const present = xs.map((value, index) => [value, ys[index]]).filter(([, value]) => value !== null);
  return present.map(([cx, cy]) => drawing("circle", { class: "measured", r: 3, cx: x(cx), cy: y(cy) }));
}

/** Where each line ends; one without any value has no end. */
function lineEnds(lines, x, y) {
  return lines.flatMap(({ name, look, x: xs, y: ys }) => {
    const last = ys.findLastIndex((value) => value !== null);
    return last < 0 ? [] : [{ name, look, x: x(xs[last]), y: y(ys[last]) }];
  });
}

/** A vertical line at the epoch, and a dot on each line. */
function epochCursor(lines, epoch, x, y, { top, bottom }) {
  const dots = lines.flatMap(({ look, x: xs, y: ys }) => {
    const value = ys[xs.indexOf(epoch)] ?? null;
    if (value === null || y(value) > bottom + 1) return [];
    return [drawing("circle", { class: "series dot", colour: look.colour, cx: x(epoch), cy: y(value), r: 3.5 })];
  });
  return [cursorAt({ x: x(epoch) }, top, bottom), ...dots];
}

function valueAt({ x, y }, epoch) {
  const index = x.indexOf(epoch);
  return index < 0 ? "–" : y[index] === null ? "NaN" : percent(y[index]);
}

/** The lines from the highest to the lowest value; those without one come last. */
function epochValues(lines, epoch, { bySeed }) {
  const number = ({ x, y }) => y[x.indexOf(epoch)] ?? -Infinity;
  const sorted = [...lines].sort((a, b) => number(b) - number(a) || 0);
  return [
    element("b", {}, `epoch ${epoch}`),
    ...valueRows(
      sorted,
      (line) => valueAt(line, epoch),
      (line) => (bySeed ? seedValues(line, epoch) : fewerSeeds(line, epoch)),
    ),
  ];
}

function seedValues({ seeds = [] }, epoch) {
  const short = (seed) => `${seed.seed}:\u00a0${valueAt(seed, epoch).replace(" %", "")}`;
  return seeds.length > 1 ? seeds.map(short).join(" · ") : "";
}

function fewerSeeds({ seeds = [] }, epoch) {
  const present = seeds.filter(({ x }) => x.includes(epoch)).length;
  return 0 < present && present < seeds.length ? `${present} of ${seeds.length} seeds` : "";
}

/** From the lowest value after the first tenth of the epochs to the highest, so that small differences show. */
function settledRange(lines) {
  const telling = lines.filter(({ astray }) => !astray);
  const judged = telling.length ? telling : lines;
  const finite = (values) => values.filter((value) => value !== null);
  const settled = judged.flatMap(({ low }) => finite(low.slice(Math.floor(low.length / 10))));
  if (!settled.length) return wholeRange(lines);
  return rangeAround([lowest(settled), highest(lines.flatMap(({ high }) => finite(high)))]);
}

function wholeRange(lines) {
  return rangeAround(lines.flatMap(({ low, high }) => [...low, ...high].filter((value) => value !== null)));
}

function isCut(lines) {
  const [low] = settledRange(lines);
  return lines.some((line) => stretchesBelow(line, low).length);
}
