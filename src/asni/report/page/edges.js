// Nothing is cut silently at an axis: arrows where lines leave it, and notes below the chart.

/** Stretches in which the lowest seed of a line is below the axis: [{first, last, least, at}], indices and a point. */
function stretchesBelow({ x, y, low: lowestSeed = y }, axisStart) {
  const found = [];
  let stretch = null;
  x.forEach((at, index) => {
    const value = lowestSeed[index];
    if (value === null || value >= axisStart) {
      stretch = null;
      return;
    }
    if (stretch === null) found.push((stretch = { first: index, least: value, at }));
    stretch.last = index;
    if (value < stretch.least) Object.assign(stretch, { least: value, at });
  });
  return found;
}

/** Arrows at the bottom for [{x, value, look}], with x in pixels; of those that would overlap, the lowest value. */
function arrowsBelow(leaving, { left, right, bottom }) {
  const drawn = [];
  for (const each of [...leaving].sort((a, b) => a.value - b.value)) {
    if (drawn.every(({ x }) => Math.abs(x - each.x) > 60)) drawn.push(each);
  }
  return drawn.flatMap(({ x, value, look }) => {
    const text = `${value.toFixed(1)} %`;
    const isLeft = x + 10 + textWidth(text) > right && x - 10 - textWidth(text) > left;
    const place = { x: isLeft ? x - 8 : x + 8, y: bottom - 4, "text-anchor": isLeft ? "end" : "start" };
    return [
      drawing("path", { class: "series arrow", colour: look.colour, d: `M${x - 4} ${bottom - 7}l4 5l4 -5` }),
      drawing("text", { class: "named haloed", colour: look.colour, ...place }, text),
    ];
  });
}

/** An arrow at the lowest point of each stretch below the axis, or at its end if it does not come back. */
function arrowsOfLines(lines, axisStart, x, area) {
  const leaving = lines.flatMap(({ look, ...line }) =>
    stretchesBelow(line, axisStart).map(({ at, least, last }) =>
      last === line.x.length - 1
        ? { x: x(line.x[last]), value: line.y[last] ?? least, look }
        : { x: x(at), value: least, look },
    ),
  );
  return arrowsBelow(leaving, area);
}

/** What is below the axis: first epochs, whole lines, and dips. */
function notesBelow(lines, axisStart) {
  const cut = lines.flatMap((line) => stretchesBelow(line, axisStart).map((stretch) => ({ ...stretch, line })));
  const isWhole = ({ line, first, last }) => line.y.every((y, at) => y === null || (first <= at && at <= last));
  const starts = cut.filter((each) => !isWhole(each) && each.first === 0);
  const dips = cut.filter((each) => !isWhole(each) && each.first > 0);
  const named = (word) => (each) => `${each.line.name}, ${word} ${percent(each.least)}`;
  return [
    starts.length && `First epochs below the axis: from ${percent(lowest(starts.map(({ least }) => least)))}.`,
    cut.some(isWhole) && `Below the axis: ${cut.filter(isWhole).map(named("from")).join("; ")}.`,
    dips.length && `Dips below the axis: ${dips.map(named("to")).join("; ")}.`,
  ].filter(Boolean);
}
