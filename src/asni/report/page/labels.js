// Names at the right ends of lines, beside the axes, nudged apart so that none covers another.

const LABEL_HEIGHT = 15;
const LABEL_GAP = 16; // between the axes and the names

const ruler = document.createElement("canvas").getContext("2d");

function textWidth(text) {
  ruler.font = "12px system-ui, sans-serif";
  return ruler.measureText(text).width;
}

/** The beginning of the text, as much as fits into `room` pixels. */
function cutToFit(text, room) {
  let letters = [...text.slice(0, 200)];
  if (letters.length === text.length && textWidth(text) <= room) return text;
  while (letters.length && textWidth(`${letters.join("")}…`) > room) letters = letters.slice(0, -1);
  return `${letters.join("")}…`;
}

/** The right margin of a chart that names the ends of its lines; null if it is too narrow, or they are too many. */
function labelMargin(width, names) {
  if (width < 480 || !names.length || names.length > MOST_HUES) return null;
  return Math.min(highest(names.map(textWidth)) + LABEL_GAP + 2, 0.32 * width);
}

/** `ends` are [{name, look, x, y}] in pixels. A thin line leads from each to its name. */
function endLabels(ends, { right, top, bottom }, width) {
  const heights = ends.map(({ y }) => Math.max(top, Math.min(bottom, y)));
  const places = nudged(heights, LABEL_HEIGHT, top, bottom);
  return ends.flatMap(({ name, look, x }, index) => {
    const place = places[index];
    const lead = `M${x + 3} ${heights[index]}H${right + 3}L${right + LABEL_GAP - 3} ${place}`;
    const text = { class: "named", colour: look.colour, x: right + LABEL_GAP, y: place + 4 };
    return [
      drawing("path", { class: "series lead", colour: look.colour, d: lead }),
      drawing("text", text, cutToFit(name, width - right - LABEL_GAP)),
    ];
  });
}

/** Places at least `gap` apart, as near to the wanted ones as possible, from `top` to `bottom`. */
function nudged(wanted, gap, top, bottom) {
  const order = wanted.map((_, index) => index).sort((a, b) => wanted[a] - wanted[b]);
  const blocks = [];
  for (const index of order) {
    let block = { members: [index], middle: wanted[index] };
    // Blocks that would touch become one, around the mean of what its members want.
    for (let before = blocks.at(-1); before && touches(before, block, gap); before = blocks.at(-1)) {
      blocks.pop();
      const members = [...before.members, ...block.members];
      block = { members, middle: within(mean(members.map((each) => wanted[each])), members.length) };
    }
    blocks.push(block);
  }
  const places = [];
  for (const { members, middle } of blocks)
    members.forEach((index, k) => (places[index] = middle + (k - (members.length - 1) / 2) * gap));
  return places;

  function within(middle, count) {
    const half = ((count - 1) / 2) * gap;
    return Math.max(top + half, Math.min(bottom - half, middle));
  }
}

function touches(above, below, gap) {
  return below.middle - above.middle < (gap * (above.members.length + below.members.length)) / 2;
}
