// The position of a layer in a ResNet: stages by colour, special layers by hatch, and their legend.

const PARTS = {
  opens: { name: "first of a stage", lines: "M0 0V5" },
  skip: { name: "skip connection", lines: "M0 0V5M0 0H5" },
};

/** The part that a layer is hatched for; undefined for most layers, and in a network without stages. */
function partOf({ place }) {
  return Object.keys(PARTS).find((part) => place?.[part]);
}

/** The patterns that fill a hatched bar, defined once for the whole page. */
function hatches() {
  const tile = { width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" };
  const patterns = Object.entries(PARTS).map(([part, { lines }]) =>
    drawing("pattern", { id: `hatch-${part}`, ...tile }, drawing("path", { class: "hatch", d: lines })),
  );
  return drawing("svg", { class: "hatches", width: 0, height: 0, "aria-hidden": "true" }, ...patterns);
}

/** A bar, with the hatch of its part on top if it has one. */
function placedBar(part, bar) {
  const { x, y, width, height } = bar;
  const hatch = part ? [drawing("rect", { x, y, width, height, fill: `url(#hatch-${part})` })] : [];
  return [drawing("rect", bar), ...hatch];
}

/** The legend of colours and hatches; empty for a network without stages. */
function placesLegend(layers) {
  const places = layers.flatMap(({ place }) => place ?? []);
  const colours = new Map(places.map(({ stage, colour }) => [stage, colour]));
  const hatched = Object.keys(PARTS).filter((part) => places.some((place) => place[part]));
  return [
    ...[...colours].map(([stage, colour]) =>
      legendEntry(stage === null ? "outside the stages" : `stage ${stage}`, undefined, colour),
    ),
    ...hatched.map((part) => legendEntry(PARTS[part].name, part, "#7F7F7F")),
  ];
}

function legendEntry(text, part, colour) {
  const bar = placedBar(part, { class: "series", colour, x: 0, y: 0, width: 30, height: 12 });
  const key = drawing("svg", { class: "key", viewBox: "0 0 30 12", "aria-hidden": "true" }, ...bar);
  return element("span", {}, key, text);
}
