// A served page follows running trainings, and keeps its reader's choices.

/** Poll the server, and reload the page when its runs have changed. */
function followServer(version) {
  keepState();
  const polling = setInterval(async () => {
    const answer = await fetch("version").catch(() => null);
    if (!answer?.ok || (await answer.text()) === version) return;
    // Stop polling: a page that takes longer to build than the interval would be requested again and again.
    clearInterval(polling);
    location.reload();
  }, 2000);
}

/** A key from the element's `data-key` and those of its ancestors: the same wherever it is on the page. */
function keyOf(node) {
  const keys = [];
  for (let at = node; at; at = at.parentElement) if (at.dataset.key !== undefined) keys.push(at.dataset.key);
  return JSON.stringify(keys);
}

/** Keep what was chosen, sorted and opened, and the keyboard focus, when the page is reloaded. */
function keepState() {
  const keyed = () => [...document.querySelectorAll("[data-key]")];
  const changed = new Set();
  for (const kind of ["input", "change"]) document.addEventListener(kind, ({ target }) => changed.add(target));
  const { states, focused } = JSON.parse(sessionStorage.getItem("kept")) ?? { states: {} };
  for (const node of keyed()) {
    const key = keyOf(node);
    if (key in states) restoreState(node, states[key]);
    if (key === focused) node.focus({ preventScroll: true });
  }
  addEventListener("pagehide", () => {
    // A control that the reader has not changed may change with the runs.
    const kept = keyed().filter((node) => changed.has(node) || !node.matches("input, select"));
    const now = kept.map((node) => [keyOf(node), stateOf(node)]).filter(([, state]) => state !== null);
    const state = { states: Object.fromEntries(now), focused: keyOf(document.activeElement) };
    sessionStorage.setItem("kept", JSON.stringify(state));
  });
}

/** Null if the element has no state to keep. */
function stateOf(node) {
  if (node.type === "checkbox") return node.checked;
  if (node.matches("input, select")) return node.value;
  if (node.matches("summary")) return node.parentNode.open;
  return node.matches("th button") ? node.parentNode.getAttribute("aria-sort") : null;
}

function restoreState(node, state) {
  if (node.matches("summary")) node.parentNode.open = state;
  else if (node.matches("th button")) {
    node.click();
    if (state === "descending") node.click();
  } else if (node.matches("input") || [...node.options].some(({ value }) => value === state)) {
    node[node.type === "checkbox" ? "checked" : "value"] = state;
    node.dispatchEvent(new Event(node.type === "range" ? "input" : "change", { bubbles: true }));
  }
}
