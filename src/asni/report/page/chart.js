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
  return Math.max(220, Math.min(300, width * 0.55));
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

function frame(width, height, x, y, xTicks, yTicks, labels) {
  const right = width - MARGIN.right,
    bottom = height - MARGIN.bottom;
  const parts = [];
  for (const value of yTicks) {
    parts.push(drawing("line", { class: "grid", x1: MARGIN.left, x2: right, y1: y(value), y2: y(value) }));
    parts.push(drawing("text", { x: MARGIN.left - 7, y: y(value) + 4, "text-anchor": "end" }, compact(value)));
  }
  for (const value of xTicks) {
    parts.push(drawing("text", { x: x(value), y: bottom + 16, "text-anchor": "middle" }, compact(value)));
  }
  parts.push(drawing("line", { class: "axis", x1: MARGIN.left, x2: right, y1: bottom, y2: bottom }));
  parts.push(drawing("text", { x: (MARGIN.left + right) / 2, y: height - 3, "text-anchor": "middle" }, labels.x));
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
 * A chart drawn by `draw(width, height)`, which returns its parts and its stops, where values are read, from left to
 * right: {count, at: (stop) => {x, y}, tip: (stop) => elements}. A stop without y is as high as the chart.
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
  const tip = element("div", { class: "tip", hidden: true, "aria-live": "polite" });
  const reading = { stops: { count: 0 }, stop: null, point };
  const cursor = drawing("g");
  let height;
  const redraw = fitted(place, (width) => {
    height = heightFor(width);
    const { parts, stops } = draw(width, height);
    const size = { width, height, viewBox: `0 0 ${width} ${height}` };
    place.replaceChildren(drawing("svg", { ...size, "aria-hidden": "true" }, ...parts, cursor), tip);
    reading.stops = stops;
    point(reading.stop < stops.count ? reading.stop : null);
  });

  function point(stop) {
    reading.stop = stop;
    tip.hidden = stop === null;
    cursor.replaceChildren();
    if (stop === null) return;
    const { x, y } = reading.stops.at(stop);
    cursor.append(
      y === undefined
        ? drawing("line", { class: "cursor", x1: x, x2: x, y1: MARGIN.top, y2: height - MARGIN.bottom })
        : drawing("circle", { class: "cursor", cx: x, cy: y, r: 9 }),
    );
    tip.replaceChildren(...reading.stops.tip(stop));
    const left = x + 12;
    tip.style.left = `${Math.max(0, left + tip.offsetWidth > place.clientWidth ? x - 12 - tip.offsetWidth : left)}px`;
    // On a narrow screen the tip is as wide as the chart: place it below or above its point, never on it.
    tip.style.top = `${y < height / 2 ? y + 14 : 0}px`;
  }
  listenForStops(place, reading);
  return { place, redraw };
}

function listenForStops(place, reading) {
  const close = () => reading.point(null);
  const follow = ({ clientX, clientY }) => {
    const { left, top } = place.getBoundingClientRect();
    reading.point(nearestStop(reading.stops, clientX - left, clientY - top));
  };
  place.addEventListener("pointermove", follow);
  place.addEventListener("pointerdown", follow);
  // A touch pointer leaves after every tap: its tip stays until a tap elsewhere or a scroll.
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

/** The rows of a tip: the look, name and text of each of the `lines`, as far as they fit. */
function tipLines(lines, textOf) {
  const most = 12;
  const rows = lines
    .slice(0, most)
    .map((line) =>
      element(
        "div",
        {},
        ...(line.look ? [lineKey(line.look)] : []),
        element("span", {}, line.name),
        element("b", {}, textOf(line)),
      ),
    );
  if (lines.length > most) rows.push(element("div", { class: "quiet" }, `and ${lines.length - most} more`));
  return rows;
}

/** Clip `parts` to the axes, with a margin for lines and dots that lie on them. */
function clipped(width, height, parts) {
  const x = MARGIN.left - 4,
    y = MARGIN.top - 4;
  const size = { width: width - x - MARGIN.right + 4, height: height - y - MARGIN.bottom + 4 };
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
