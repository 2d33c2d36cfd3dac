// A chart with two numeric axes, as wide as its place, whose values are read with the pointer or the arrow keys.

const MARGIN = { top: 10, right: 12, bottom: 36, left: 52 };

/** Calls `draw` with the width of `place` whenever it changes; returns a function that redraws. */
function fitted(place, draw) {
  let width = 0;
  const redraw = () => {
    if (width > 0) draw(width);
  };
  new ResizeObserver((entries) => {
    const now = Math.floor(entries[0].contentRect.width);
    if (now !== width) {
      width = now;
      redraw();
    }
  }).observe(place);
  return redraw;
}

/** The height of a chart of this width. */
function heightFor(width) {
  return Math.max(220, Math.min(320, width * 0.55));
}

/** The edges of the axes of a chart, with a margin of `right` pixels beside them. */
function areaOf(width, right = MARGIN.right) {
  const height = heightFor(width);
  return { height, left: MARGIN.left, right: width - right, top: MARGIN.top, bottom: height - MARGIN.bottom };
}

function axis(low, high, from, to) {
  const span = high - low || 1;
  return (value) => from + ((value - low) / span) * (to - from);
}

function logAxis(low, high, from, to) {
  const at = axis(Math.log(low), Math.log(high), from, to);
  return (value) => at(Math.log(value));
}

/** From the lowest to the highest value, with a margin. */
function rangeAround(values) {
  if (!values.length) return [0, 100];
  const low = lowest(values),
    high = highest(values);
  const margin = 0.05 * (high - low) || 1;
  return [Math.max(0, low - margin), high + margin];
}

/** Round numbers between low and high, roughly `about` of them. */
function ticks(low, high, about) {
  const rough = (high - low) / about;
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((nice) => nice * power >= rough * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++)
    found.push(Number((k * step).toPrecision(12)));
  return found;
}

function compact(value) {
  return value.toLocaleString("en-US", {
    maximumSignificantDigits: 4,
    notation: Math.abs(value) >= 1e5 ? "compact" : "standard",
  });
}

/** `labels` are the name of the x axis, and how its ticks are written unless in short. */
function frame({ height, left, right, bottom }, x, y, xTicks, yTicks, labels) {
  const { format = compact } = labels;
  const parts = [];
  for (const value of yTicks) {
    parts.push(drawing("line", { class: "grid", x1: left, x2: right, y1: y(value), y2: y(value) }));
    parts.push(drawing("text", { x: left - 7, y: y(value) + 4, "text-anchor": "end" }, compact(value)));
  }
  for (const value of xTicks) {
    parts.push(drawing("text", { x: x(value), y: bottom + 16, "text-anchor": "middle" }, format(value)));
  }
  parts.push(drawing("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
  parts.push(drawing("text", { x: (left + right) / 2, y: height - 3, "text-anchor": "middle" }, labels.x));
  return parts;
}

/** The line through the points; a missing value is a gap, and a point between two gaps is a short dash. */
function linePath(xs, ys, x, y) {
  let path = "",
    pen = false;
  xs.forEach((value, index) => {
    if (ys[index] === null) {
      pen = false;
      return;
    }
    const alone = !pen && (index + 1 === xs.length || ys[index + 1] === null);
    path += `${pen ? "L" : "M"}${x(value).toFixed(2)} ${y(ys[index]).toFixed(2)}${alone ? "h2" : ""}`;
    pen = true;
  });
  return path;
}

/**
 * A chart with its values beside it. `draw(width)` returns its height, its parts and its stops, where values are read:
 * {count, at: (stop) => {x, y}, values: (stop) => elements}. A stop without y is as high as the chart. Optional are
 * `cursor(stop, isRead)`, `nearest(x, y)` and `resting`, the stop whose values are shown while none is read.
 * Returns the element and a function that redraws it.
 */
function readableChart(label, draw) {
  const place = element("div", {
    class: "chart",
    tabindex: "0",
    role: "group",
    "aria-label": `${label}; use the arrow keys to read the values`,
    "data-key": label,
  });
  const values = element("div", { class: "values" });
  const reading = { stops: { count: 0 }, stop: null, point };
  const cursor = drawing("g");
  const redraw = fitted(place, (width) => {
    const { height, parts, stops } = draw(width);
    const size = { width, height, viewBox: `0 0 ${width} ${height}` };
    place.replaceChildren(drawing("svg", { ...size, "aria-hidden": "true" }, ...parts, cursor));
    reading.stops = withDefaults(stops, height);
    point(reading.stop < stops.count ? reading.stop : null);
  });

  function point(stop) {
    const { count, resting } = reading.stops;
    const isRead = stop !== null && count > 0;
    reading.stop = stop;
    // What is read at rest must not be announced whenever a chart is left.
    values.setAttribute("aria-live", isRead ? "polite" : "off");
    const read = isRead ? stop : resting;
    cursor.replaceChildren(...(count ? reading.stops.cursor(read, isRead) : []));
    values.replaceChildren(...(count ? reading.stops.values(read) : []));
  }
  listenForStops(place, reading);
  return { place: element("div", { class: "reading" }, place, values), redraw };
}

function withDefaults(stops, height) {
  return {
    resting: stops.count - 1,
    nearest: (x, y) => nearestStop(stops, x, y),
    cursor: (stop, isRead) => (isRead ? [cursorAt(stops.at(stop), MARGIN.top, height - MARGIN.bottom)] : []),
    ...stops,
  };
}

function cursorAt({ x, y }, top, bottom) {
  return y === undefined
    ? drawing("line", { class: "cursor", x1: x, x2: x, y1: top, y2: bottom })
    : drawing("circle", { class: "cursor", cx: x, cy: y, r: 9 });
}

function listenForStops(place, reading) {
  const close = () => reading.point(null);
  const follow = ({ clientX, clientY }) => {
    const { left, top } = place.getBoundingClientRect();
    if (reading.stops.count) reading.point(reading.stops.nearest(clientX - left, clientY - top));
  };
  place.addEventListener("pointermove", follow);
  place.addEventListener("pointerdown", follow);
  // A touch pointer leaves after every tap: its values stay until a tap elsewhere or a scroll.
  place.addEventListener("pointerleave", ({ pointerType }) => pointerType !== "touch" && close());
  place.addEventListener("pointercancel", close);
  document.addEventListener("pointerdown", ({ target }) => place.contains(target) || close());
  place.addEventListener("blur", close);
  place.addEventListener("keydown", (event) => {
    const { count } = reading.stops;
    const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -count, End: count };
    if (event.key === "Escape") close();
    if (!(event.key in steps) || !count) return;
    event.preventDefault();
    const next = (reading.stop ?? (steps[event.key] > 0 ? -1 : count)) + steps[event.key];
    reading.point(Math.max(0, Math.min(count - 1, next)));
  });
}

/** Null if there are no stops. */
function nearestStop({ count, at }, px, py) {
  let nearest = null,
    least = Infinity;
  for (let stop = 0; stop < count; stop++) {
    const { x, y = py } = at(stop);
    const distance = Math.hypot(x - px, y - py);
    if (distance < least) [nearest, least] = [stop, distance];
  }
  return nearest;
}

/** The rows of the values: the look, name and text of each of the `lines`, as far as they fit, and a detail below. */
function valueRows(lines, textOf, detailOf = () => "") {
  const most = 40;
  const rows = lines.slice(0, most).flatMap((line) => {
    const key = line.look ? [line.dots ? dotKey() : lineKey(line.look)] : [];
    const row = element("div", {}, ...key, element("span", {}, line.name), element("b", {}, textOf(line)));
    const detail = detailOf(line);
    return detail ? [row, element("div", { class: "quiet" }, detail)] : [row];
  });
  if (lines.length > most) rows.push(element("div", { class: "quiet" }, `and ${lines.length - most} more`));
  return rows;
}

/** Clip `parts` to the axes, with a margin for lines and dots that lie on them. */
function clipped(area, parts) {
  const x = area.left - 4,
    y = area.top - 4;
  const size = { width: area.right - x + 4, height: area.bottom - y + 4 };
  return drawing(
    "svg",
    { class: "clipped", x, y, ...size, viewBox: `${x} ${y} ${size.width} ${size.height}` },
    ...parts,
  );
}

function drawnLine({ look, x: xs, y: ys }, x, y) {
  return drawing("path", {
    class: "series",
    colour: look.colour,
    "stroke-dasharray": look.dashes.join(" "),
    d: linePath(xs, ys, x, y),
  });
}

/** Switches of many lines are folded: their names are also in the chart or in its values. */
function folded(view, count, what) {
  if (count <= MOST_HUES) return view;
  const key = { class: "quiet", "data-key": `${view.dataset.key}-folded` };
  return element("details", { class: "folded" }, element("summary", key, `choose from ${count} ${what}`), view);
}
