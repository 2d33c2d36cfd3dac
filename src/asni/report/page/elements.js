"use strict";
// Elements and numbers. Text is only added as text nodes, so that a name can never become markup.

function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function drawing(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "colour") node.style.setProperty("--series", value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null) node.setAttribute(name, value);
  }
  node.append(...children.map((child) => (child instanceof Node ? child : document.createTextNode(String(child)))));
  return node;
}

function whole(value) {
  return value.toLocaleString("en-US", { maximumFractionDigits: 0 });
}

function percent(value) {
  return value.toFixed(2) + " %";
}

function fraction(value) {
  return percent(100 * value);
}

function counted(count, what) {
  return `${whole(count)} ${what}${count === 1 ? "" : "s"}`;
}

/** Without spreading the values into arguments, whose number browsers limit. */
function highest(values) {
  return values.reduce((a, b) => Math.max(a, b));
}

function lowest(values) {
  return values.reduce((a, b) => Math.min(a, b));
}

/** The values times a factor; null stays null. */
function scaled(values, factor) {
  return values.map((value) => (value === null ? null : factor * value));
}

/** A formatted number; NaN is shown as such, and null as a dash. */
function shown(value, format) {
  if (value === "NaN") return element("span", { class: "nan" }, "NaN");
  return value === null ? "–" : format(value);
}

function labelled(text, control) {
  return element("label", {}, text, control);
}

/** A card with a control above its parts. */
function pickCard(title, pick, ...parts) {
  const heading = element("h3", {}, title);
  return element("div", { class: "card" }, heading, element("div", { class: "pick" }, pick), ...parts);
}

// A `data-key` identifies an element across reloads of the page (see `keyOf`).

function chooser(key, options, onchange) {
  const choices = options.map(([value, text]) => element("option", { value }, text));
  return element("select", { "data-key": key, onchange }, ...choices);
}

/** Checkboxes for [{value, text, off, line}], checked unless `off`; `line` is a sample of the drawn line. */
function switches(key, name, choices, changed) {
  const off = new Set(choices.filter((choice) => choice.off).map(({ value }) => value));
  const boxes = choices.map(({ value, text, line }) => {
    const box = element("input", {
      type: "checkbox",
      "data-key": String(value),
      checked: !off.has(value),
      onchange: () => {
        if (box.checked) off.delete(value);
        else off.add(value);
        changed();
      },
    });
    return element("label", {}, box, ...(line ? [line] : []), text);
  });
  return {
    on: (value) => !off.has(value),
    view: element(
      "div",
      { class: "switches", role: "group", "aria-label": name, "data-key": key },
      element("span", { class: "quiet" }, name),
      ...boxes,
    ),
  };
}
