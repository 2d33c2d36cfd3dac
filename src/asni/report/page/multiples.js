// Small multiples: a panel for each line, all with the same axes, in front of the other lines in grey.

const PANEL = { gap: 14, left: 38, line: 16, below: 16, narrowest: 175 };

/** The same as `overlaid`, for any number of lines. */
function multiples(width, dashed, view) {
  const { low, high, last, id } = view;
  const lines = dashed.map(solid);
  const columns = Math.max(2, Math.floor((width - PANEL.left) / (PANEL.narrowest + PANEL.gap)));
  const side = (width - PANEL.left - MARGIN.right - (columns - 1) * PANEL.gap) / columns;
  const tall = Math.max(62, Math.min(100, 0.5 * side));
  const title = titleHeight(lines, side);
  const area = { left: 0, right: side, top: 0, bottom: tall };
  const x = axis(0, Math.max(last, 1), 0, side),
    y = axis(low, high, tall, 0);
  const corner = (index) => ({
    left: PANEL.left + (index % columns) * (side + PANEL.gap),
    top: title + Math.floor(index / columns) * (title + tall + PANEL.below),
  });
  const all = lines.map((line) => linePath(line.x, line.y, x, y)).join("");
  const panels = lines.map((line, index) => {
    const labels = { left: index % columns === 0, below: index + columns >= lines.length };
    const shared = clipped(area, [drawing("use", { href: `#${id}` }), ...bandAndLine(line, x, y, view)]);
    const parts = [...panelFrame(area, x, y, view, labels), shared, ...arrowsOfLines([line], low, x, area)];
    return shifted(corner(index), parts);
  });
  const epochs = measuredEpochs(lines, last);
  return {
    height: corner(lines.length - 1).top + tall + MARGIN.bottom,
    parts: [drawing("defs", {}, drawing("path", { id, class: "others", d: all })), ...panels],
    stops: {
      count: epochs.length,
      nearest: (px) => {
        const inside = (px - PANEL.left + PANEL.gap / 2) % (side + PANEL.gap);
        return nearestStop({ count: epochs.length, at: (stop) => ({ x: x(epochs[stop]) }) }, inside - PANEL.gap / 2, 0);
      },
      cursor: (stop, isRead) =>
        lines.map((line, index) => {
          const cursor = isRead ? epochCursor([line], epochs[stop], x, y, area) : [];
          return shifted(corner(index), [...panelTitle(line, epochs[stop], side, title), ...cursor]);
        }),
      values: (stop) => epochValues(lines, epochs[stop], view),
    },
  };
}

/** One line in a panel needs no dashes to be told from others. */
function solid(line) {
  return { ...line, look: { ...line.look, dashes: [] } };
}

function shifted({ left, top }, parts) {
  return drawing("g", { transform: `translate(${left} ${top})` }, ...parts);
}

/** Labels only at the left and at the bottom of all panels, since they share their axes. */
function panelFrame({ right, bottom }, x, y, { low, high, last }, labels) {
  const parts = ticks(low, high, 5).flatMap((value) => [
    drawing("line", { class: "grid", x1: 0, x2: right, y1: y(value), y2: y(value) }),
    ...(labels.left ? [drawing("text", { x: -7, y: y(value) + 4, "text-anchor": "end" }, compact(value))] : []),
  ]);
  parts.push(drawing("line", { class: "axis", x1: 0, x2: right, y1: bottom, y2: bottom }));
  if (labels.below) {
    const across = ticks(0, Math.max(last, 1), right / 60).filter(Number.isInteger);
    for (const value of across)
      parts.push(drawing("text", { x: x(value), y: bottom + 16, "text-anchor": "middle" }, compact(value)));
    parts.push(drawing("text", { x: right / 2, y: bottom + 32, "text-anchor": "middle" }, "epoch"));
  }
  return parts;
}

/** One line for the names and the values beside them, or two if they need the whole width. */
function titleHeight(lines, width) {
  const isTight = lines.some(({ name }) => textWidth(name.slice(0, 200)) > width - textWidth("99.99 %") - 8);
  return isTight ? 2 * PANEL.line : PANEL.line;
}

/** The name above a panel, and the value that is read in it. */
function panelTitle(line, epoch, width, height) {
  const isTight = height > PANEL.line;
  const value = isTight ? { x: 0, y: -6 } : { x: width, y: -6, "text-anchor": "end" };
  const name = { class: "named", colour: line.look.colour, x: 0, y: isTight ? -6 - PANEL.line : -6 };
  return [
    drawing("text", name, isTight ? cutToFit(line.name, width) : line.name),
    drawing("text", { class: "value", ...value }, valueAt(line, epoch)),
  ];
}
