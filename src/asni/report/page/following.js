// While trainings go on the page follows them, and keeps what its reader did to it.

/** While trainings go on: load the page again when its runs have changed. */
function followServer(version) {
  keepState();
  const asking = setInterval(async () => {
    const answer = await fetch("version").catch(() => null);
    if (!answer?.ok || (await answer.text()) === version) return;
    // Asking on would load it again and again where it takes longer to make than from question to question.
    clearInterval(asking);
    location.reload();
  }, 2000);
}

/** What an element is about, by its own `data-key` and those around it: the same wherever on the page it stands. */
function keyOf(node) {
  const keys = [];
  for (let at = node; at; at = at.parentElement) if (at.dataset.key !== undefined) keys.push(at.dataset.key);
  return JSON.stringify(keys);
}

/** What was chosen, sorted and opened, and where the keyboard is, survives that the page is loaded again. */
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
    // A control that nobody touched is free to follow the runs.
    const kept = keyed().filter((node) => changed.has(node) || !node.matches("input, select"));
    const now = kept.map((node) => [keyOf(node), stateOf(node)]).filter(([, state]) => state !== null);
    const state = { states: Object.fromEntries(now), focused: keyOf(document.activeElement) };
    sessionStorage.setItem("kept", JSON.stringify(state));
  });
}

/** Null where nothing can be chosen, sorted or opened. */
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
