// The methods by mean accuracy: a mark for the mean, a bar for the deviation over seeds, small dots for single seeds,
// and a line across for the dense network. Every value is also there as text, so nothing has to be pointed at.

const MOST_HUES = 7;
const OURS = ["asni-1", "asni-2"];

/** Null if there are no two methods to compare. */
function rankingView(group) {
  const { points, levels, again } = sizesOf([group]);
  if (!points.length || points.length + levels.length < 2) return null;
  const rows = [...points, ...levels].sort((a, b) => compared(a.accuracy, b.accuracy, -1));
  const [low, high] = rankedRange(rows);
  const at = (value) => 3 + (94 * (value - low)) / (high - low);
  const common = rows.map(marksOf).reduce((all, marks) => all.filter((mark) => marks.includes(mark)));
  const dense = levels.find(({ accuracy }) => accuracy !== "NaN");
  const options = { at, low, high, common, dense, isOneSize: haveOneSize(points), hues: rows.length <= MOST_HUES };
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

/** The marks of the runs of a row; one that not all of them have is counted. */
function marksOf({ runs }) {
  const marks = new Set(runs.flatMap((run) => run.marks));
  return [...marks].map((mark) => {
    const count = runs.filter((run) => run.marks.includes(mark)).length;
    return count < runs.length ? `${count} of ${runs.length} ${mark}` : mark;
  });
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

function rankedRow(row, { common, isOneSize, hues, ...scale }) {
  const look = hues ? row.look : { marker: "o", colour: `var(--${OURS.includes(row.stage) ? "accent" : "quiet"})` };
  const own = marksOf(row).filter((mark) => !common.includes(mark));
  const spread = row.spread === null || row.spread === "NaN" ? "" : ` ± ${row.spread.toFixed(2)}`;
  const size = isOneSize || row.stage === "dense" ? [] : [`${whole(row.nonzeros)} nonzeros`];
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
      ...size.map((text) => element("small", { class: "quiet" }, text)),
    ),
  );
}

function rankedStrip(row, look, { at, low, high, dense }) {
  const parts = [drawing("line", { class: "grid", x1: "0", x2: "100%", y1: "50%", y2: "50%" })];
  if (dense && dense.accuracy >= low && dense.accuracy <= high) {
    const x = `${at(dense.accuracy)}%`;
    parts.push(drawing("line", { class: "dense", x1: x, x2: x, y1: "0", y2: "100%" }));
  }
  if (row.accuracy === "NaN") return parts;
  const inside = (value) => Math.min(high, Math.max(low, value));
  const isBeyond = (value) => value !== inside(value);
  const [from, to] = [row.accuracy - (row.spread ?? 0), row.accuracy + (row.spread ?? 0)];
  if (inside(from) < inside(to)) {
    const [x1, x2] = [inside(from), inside(to)].map((value) => `${at(value)}%`);
    parts.push(drawing("line", { class: "series", colour: look.colour, x1, x2, y1: "50%", y2: "50%" }));
  }
  const seeds = row.seeds > 1 ? row.runs.map(({ accuracy }) => accuracy) : [];
  for (const value of seeds.filter((value) => !isBeyond(value))) {
    parts.push(drawing("circle", { class: "series seed", colour: look.colour, r: 2.5, cx: `${at(value)}%`, cy: "50%" }));
  }
  const beyond = [from, to, row.accuracy, ...seeds].filter(isBeyond);
  if (beyond.some((value) => value < low)) parts.push(edgeArrow("2%", "M0 0l7 -5v10Z", look));
  if (beyond.some((value) => value > high)) parts.push(edgeArrow("98%", "M0 0l-7 -5v10Z", look));
  if (!isBeyond(row.accuracy)) parts.push(placed(`${at(row.accuracy)}%`, drawnMark(look, 0, 0)));
  else parts.push(...offScale(row, row.accuracy < low));
  return parts;
}

/** A part that is drawn around 0, at a share of the width. */
function placed(x, part) {
  return drawing("svg", { x, y: "50%" }, part);
}

function edgeArrow(x, d, { colour }) {
  return placed(x, drawing("path", { class: "series edge", colour, d }));
}

function offScale({ accuracy }, isLow) {
  const anchor = isLow ? "start" : "end";
  const place = { x: isLow ? 14 : -14, y: 4, "text-anchor": anchor };
  return [placed(isLow ? "2%" : "98%", drawing("text", place, `off the axis, at ${percent(accuracy)}`))];
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
