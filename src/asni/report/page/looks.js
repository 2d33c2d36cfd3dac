// The hues and marks of methods, and samples of them for legends.

const HUES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]; // as in the figures
const MOST_HUES = HUES.length; // methods in one chart; more could not be told apart

/** The lines with a hue each, as long as there are enough; a line keeps its own unless another has it already. */
function hued(lines) {
  if (lines.length > MOST_HUES) return lines;
  const taken = new Set();
  return lines.map((line) => {
    const free = HUES.find((hue) => !taken.has(hue) && !lines.some(({ look }) => look.colour === hue));
    const colour = taken.has(line.look.colour) ? free : line.look.colour;
    taken.add(colour);
    return { ...line, look: { ...line.look, colour } };
  });
}

const MARKS = {
  o: "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z",
  s: "M-3.7 -3.7h7.4v7.4h-7.4Z",
  "^": "M0 -4.8L4.8 3.6H-4.8Z",
  D: "M0 -5L5 0L0 5L-5 0Z",
  v: "M0 4.8L4.8 -3.6H-4.8Z",
  P: "M-1.7 -4.8h3.4v3.1h3.1v3.4h-3.1v3.1h-3.4v-3.1h-3.1v-3.4h3.1Z",
  X: "M0 -2.1L2.6 -4.7L4.7 -2.6L2.1 0L4.7 2.6L2.6 4.7L0 2.1L-2.6 4.7L-4.7 2.6L-2.1 0L-4.7 -2.6L-2.6 -4.7Z",
};

function drawnMark(look, x, y, isPale = false) {
  const place = { d: MARKS[look.marker], transform: `translate(${x} ${y})` };
  return drawing("path", { class: isPale ? "series mark faint" : "series mark", colour: look.colour, ...place });
}

function lineKey(look, ...marks) {
  const line = drawing("path", {
    class: "series",
    colour: look.colour,
    d: "M0 6H30",
    "stroke-dasharray": look.dashes.join(" "),
  });
  return drawing("svg", { class: "key", viewBox: "0 0 30 12", "aria-hidden": "true" }, line, ...marks);
}

function dotKey() {
  const dot = drawing("circle", { class: "measured", r: 4, cx: 15, cy: 6 });
  return drawing("svg", { class: "key", viewBox: "0 0 30 12", "aria-hidden": "true" }, dot);
}
