// The methods by mean accuracy: a mark for the mean, a bar for the deviation over seeds, small dots for single seeds,
// and a line across for the dense network. Every value is also there as text, so nothing has to be pointed at.

const OURS = ["asni-1", "asni-2"];

/** Null if there are no two methods to compare. */
function rankingView(group) {
  const { points, levels, again } = sizesOf([group]);
  if (!points.length || points.length + levels.length < 2) return null;
  const rows = [...points, ...levels].sort((a, b) => compared(a.accuracy, b.accuracy, -1));
  const [low, high] = rankedRange(rows);
  const at = (value) => 3 + (94 * (value - low)) / (high - low);
  // Only this mark belongs to the whole recipe: "1 of 3 at chance" of every method is about different networks.
  const common = rows.every((row) => marksOf(row).includes(SHORTENED)) ? [SHORTENED] : [];
  const dense = levels.find(({ accuracy }) => accuracy >= low && accuracy <= high);
  const options = {
    ...{ at, low, high, common, dense },
    isOneSize: haveOneSize(points),
    isCounted: rows.some(({ seeds, started }) => seeds !== started || seeds !== rows[0].seeds),
    hues: rows.length <= MOST_HUES,
  };
  return element(
    "div",
    { class: "card" },
    element("h3", {}, "Test accuracy (%) by method", ...markViews(common)),
    element("ol", { class: "ranking" }, ...rows.map((row) => rankedRow(row, options))),
    element("div", { class: "ranked", "aria-hidden": "true" }, rankedAxis(options)),
    ...rankingNotes(group, rows, dense).map((note) => element("p", { class: "quiet" }, note)),
    ...againNotes(again),
  );
}

/** Whether all of these sparse networks have the same number of nonzeros, within 1 %. */
function haveOneSize(rows) {
  const sizes = rows.map(({ nonzeros }) => nonzeros).filter((nonzeros) => nonzeros !== "NaN");
  return !sizes.length || highest(sizes) <= 1.01 * lowest(sizes);
}

/** Around the methods that lie together: one far from the others would squeeze them into one spot. */
function rankedRange(rows) {
  const middle = (values) => [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) / 2)];
  const sound = rows.filter(({ accuracy }) => accuracy !== "NaN");
  if (!sound.length) return [0, 100];
  const median = middle(sound.map(({ accuracy }) => accuracy));
  const reach = Math.max(3, 6 * middle(sound.map(({ accuracy }) => Math.abs(accuracy - median))));
  const near = sound.filter(({ accuracy }) => Math.abs(accuracy - median) <= reach);
  const ends = near.flatMap(({ accuracy, spread, runs }) => [
    accuracy - (spread ?? 0),
    accuracy + (spread ?? 0),
    ...runs.map((run) => run.accuracy),
  ]);
  const [low, high] = rangeAround(ends.filter((value) => Math.abs(value - median) <= 1.5 * reach));
  return [low, Math.min(100, high)];
}

function rankedRow(row, { common, isOneSize, isCounted, hues, ...scale }) {
  const look = hues ? row.look : { marker: "o", colour: `var(--${OURS.includes(row.stage) ? "accent" : "quiet"})` };
  const own = marksOf(row).filter((mark) => !common.includes(mark));
  const spread = row.spread === null || row.spread === "NaN" ? "" : ` ± ${row.spread.toFixed(2)}`;
  const details = isOneSize || row.stage === "dense" ? [] : [shown(row.nonzeros, (size) => `${whole(size)} nonzeros`)];
  if (isCounted) details.push((row.seeds < row.started ? `${row.seeds} of ` : "") + counted(row.started, "seed"));
  return element(
    "li",
    { class: "ranked" },
    element("span", { class: OURS.includes(row.stage) ? "name ours" : "name" }, row.name, ...markViews(own)),
    drawing("svg", { class: "strip", "aria-hidden": "true" }, ...rankedStrip(row, look, scale)),
    element(
      "span",
      { class: "value" },
      element("b", {}, shown(row.accuracy, percent)),
      ...(spread ? [element("span", { class: "quiet" }, spread)] : []),
      ...details.map((detail) => element("small", { class: "quiet" }, detail)),
    ),
  );
}

function rankedStrip(row, look, { at, low, high, dense }) {
  const parts = [drawing("line", { class: "grid", x1: "0", x2: "100%", y1: "50%", y2: "50%" })];
  if (dense) {
    const x = `${at(dense.accuracy)}%`;
    parts.push(drawing("line", { class: "dense", x1: x, x2: x, y1: "0", y2: "100%" }));
  }
  const { accuracy, spread } = row;
  if (accuracy === "NaN") return parts;
  if (accuracy < low || accuracy > high) return [...parts, ...offAxis(row, look, accuracy < low)];
  const seeds = row.seeds > 1 ? row.runs.map((run) => run.accuracy) : [];
  const { colour } = look;
  const bar = [Math.max(low, accuracy - (spread ?? 0)), Math.min(high, accuracy + (spread ?? 0))];
  const [x1, x2] = bar.map((value) => `${at(value)}%`);
  parts.push(drawing("line", { class: "series", colour, x1, x2, y1: "50%", y2: "50%" }));
  for (const value of seeds.filter((value) => value >= low && value <= high)) {
    parts.push(drawing("circle", { class: "series seed", colour, r: 2.5, cx: `${at(value)}%`, cy: "50%" }));
  }
  if (seeds.some((value) => value < low)) parts.push(edgeArrow(true, look));
  if (seeds.some((value) => value > high)) parts.push(edgeArrow(false, look));
  return [...parts, placed(`${at(accuracy)}%`, drawnMark(look, 0, 0))];
}

/** A part that is drawn around 0, at a share of the width. */
function placed(x, part) {
  return drawing("svg", { x, y: "50%" }, part);
}

/** Towards a value beyond the axis. */
function edgeArrow(isLow, { colour }) {
  const arrow = drawing("path", { class: "series edge", colour, d: isLow ? "M0 0l7 -5v10Z" : "M0 0l-7 -5v10Z" });
  return placed(isLow ? "0%" : "100%", arrow);
}

function offAxis({ accuracy, runs }, look, isLow) {
  const seeds = runs.map((run) => run.accuracy);
  const over = seeds.length > 1 ? `, seeds ${lowest(seeds).toFixed(1)} to ${highest(seeds).toFixed(1)} %` : "";
  const place = isLow ? { x: 12, y: 4 } : { x: -12, y: 4, "text-anchor": "end" };
  const text = drawing("text", place, `off the axis, at ${accuracy.toFixed(1)} %${over}`);
  return [edgeArrow(isLow, look), placed(isLow ? "0%" : "100%", text)];
}

function rankedAxis({ at, low, high }) {
  const texts = ticks(low, high, 4).map((value) =>
    drawing("text", { x: `${at(value)}%`, y: 14, "text-anchor": "middle" }, compact(value)),
  );
  return drawing("svg", { class: "strip" }, ...texts);
}

function rankingNotes(group, rows, dense) {
  const ended = new Set(rows.map(({ stage }) => stage));
  const going = Object.keys(group.stages).filter((stage) => group.stages[stage].last && !ended.has(stage));
  const notes = [
    rows.some(({ seeds }) => seeds > 1) && "Bars: the standard deviation over seeds; small dots: single seeds.",
    dense && "Vertical line: dense.",
  ].filter(Boolean);
  return [
    ...(notes.length ? [notes.join(" ")] : []),
    ...(going.length ? [`Not finished: ${going.map((stage) => group.stages[stage].title).join(", ")}.`] : []),
  ];
}
