// What the runs of a recipe achieved: one sentence, its caveats, and a few large numbers.

/** Null if there is nothing to tell yet. */
function storyView({ story }) {
  if (story === null) return null;
  const { sentence, about, caveats, tiles } = story;
  return element(
    "div",
    { class: "story" },
    element("p", { class: "headline" }, sentence),
    ...caveats.map((caveat) => element("p", { class: "caveat" }, caveat)),
    ...(about ? [element("p", { class: "quiet" }, about)] : []),
    ...(tiles.length ? [element("dl", { class: "tiles" }, ...tiles.map(tileView))] : []),
  );
}

function tileView({ label, value, note }) {
  return element(
    "div",
    { class: "tile" },
    element("dt", {}, label),
    element("dd", {}, element("b", {}, value), ...(note ? [element("span", { class: "quiet" }, note)] : [])),
  );
}

/** Warnings and notes, one line for each cause, with the runs on demand. */
function noticesView(notices) {
  return [false, true].flatMap((isNote) => {
    const own = notices.filter(({ note }) => note === isNote);
    return own.length ? [element("div", { class: isNote ? "notes" : "warnings" }, ...own.map(noticeView))] : [];
  });
}

function noticeView({ summary, details }) {
  if (!details.length) return element("p", {}, summary);
  return element(
    "details",
    {},
    element("summary", { "data-key": summary.replace(/^[\d,]+ /, "") }, summary),
    element("ul", {}, ...details.map((detail) => element("li", {}, detail))),
  );
}
