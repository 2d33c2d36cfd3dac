// A chart over numbers on both axes, as wide as its place, with the values under the pointer or the arrow keys.

const MARGIN = { top: 10, right: 12, bottom: 36, left: 52 };

/** Calls `draw` with the width of the place, now and whenever it changes. */
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

function axis(low, high, from, to) {
  const span = high - low || 1;
  const at = (value) => from + ((value - low) / span) * (to - from);
  at.inverse = (place) => low + ((place - from) / (to - from)) * span;
  return at;
}

/** Round numbers between low and high, about as many as asked. */
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

/** The line through the points; a value that is missing is a gap, and a point between two gaps a dot's length. */
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
 * Lines over epochs. `series()` gives what is to be drawn now: [{name, look, x, y, dots}].
 * Returns the element and a function that draws it again.
 */
function epochChart({ label, epochs, range, format, series }) {
  const place = element("div", {
    class: "chart",
    tabindex: "0",
    role: "group",
    "aria-label": `${label} over epochs; arrow keys read the values`,
  });
  const tip = element("div", { class: "tip", hidden: true, "aria-live": "polite" });
  const state = { epoch: null };
  let x, cursor;
  const redraw = fitted(place, (width) => {
    const height = Math.max(220, Math.min(300, width * 0.55));
    const lines = series();
    const [low, high] = range(lines);
    x = axis(0, Math.max(epochs - 1, 1), MARGIN.left, width - MARGIN.right);
    const y = axis(low, high, height - MARGIN.bottom, MARGIN.top);
    const across = ticks(0, Math.max(epochs - 1, 1), width / 70).filter(Number.isInteger);
    const svg = drawing("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    svg.append(
      ...frame(width, height, x, y, across, ticks(low, high, 5), { x: "epoch" }),
      clipped(
        width,
        height,
        lines.flatMap((line) => drawnLine(line, x, y)),
      ),
    );
    cursor = drawing("line", { class: "cursor", y1: MARGIN.top, y2: height - MARGIN.bottom, visibility: "hidden" });
    svg.append(cursor);
    place.replaceChildren(svg, tip);
    point(state.epoch);
  });

  function point(epoch) {
    state.epoch = epoch;
    tip.hidden = epoch === null;
    cursor.setAttribute("visibility", epoch === null ? "hidden" : "visible");
    if (epoch === null) return;
    cursor.setAttribute("x1", x(epoch));
    cursor.setAttribute("x2", x(epoch));
    tip.replaceChildren(element("b", {}, `epoch ${epoch}`), ...valuesAt(series(), epoch, format));
    const left = x(epoch) + 12;
    tip.style.left = `${Math.max(0, left + tip.offsetWidth > place.clientWidth ? x(epoch) - 12 - tip.offsetWidth : left)}px`;
  }
  listenForEpochs(place, epochs, state, point, (px) => x.inverse(px));
  return { place, redraw };
}

/** What leaves the axes is cut off, but for the width of a line or a dot that lies on them. */
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

function drawnLine({ look, x: xs, y: ys, dots }, x, y) {
  if (dots) {
    const there = xs.map((value, index) => [value, ys[index]]).filter(([, value]) => value !== null);
    return there.map(([cx, cy]) => drawing("circle", { class: "measured", r: 3, cx: x(cx), cy: y(cy) }));
  }
  return [
    drawing("path", {
      class: "series",
      colour: look.colour,
      "stroke-dasharray": look.dashes.join(" "),
      d: linePath(xs, ys, x, y),
    }),
  ];
}

function valuesAt(lines, epoch, format) {
  const most = 12;
  const rows = lines.slice(0, most).map(({ name, look, x, y }) => {
    const index = x.indexOf(epoch);
    const text = index < 0 ? "–" : y[index] === null ? "NaN" : format(y[index]);
    return element("div", {}, ...(look ? [lineKey(look)] : []), element("span", {}, name), element("b", {}, text));
  });
  if (lines.length > most) rows.push(element("div", { class: "quiet" }, `and ${lines.length - most} more`));
  return rows;
}

function listenForEpochs(place, epochs, state, point, toEpoch) {
  const within = (epoch) => Math.max(0, Math.min(epochs - 1, epoch));
  const follow = (event) => point(within(Math.round(toEpoch(event.clientX - place.getBoundingClientRect().left))));
  place.addEventListener("pointermove", follow);
  place.addEventListener("pointerdown", follow);
  place.addEventListener("pointerleave", () => point(null));
  place.addEventListener("blur", () => point(null));
  place.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -epochs, End: epochs };
    if (event.key === "Escape") point(null);
    if (!(event.key in steps)) return;
    event.preventDefault();
    point(within((state.epoch ?? (steps[event.key] > 0 ? -1 : epochs)) + steps[event.key]));
  });
}
