// The page: what was wrong, then each recipe with its table, figures, schedule, and how its runs were made.

function runName(group, run) {
  const alike = group.runs.filter((each) => each.stage === run.stage && each.seed === run.seed).length > 1;
  return `${group.stages[run.stage].title}, seed ${run.seed}${alike ? ` (${run.path})` : ""}`;
}

function warningsView(warnings) {
  if (!warnings.length) return [];
  const summary = counted(warnings.length, "warning");
  return [
    element(
      "details",
      { class: "warnings", open: true },
      element("summary", {}, summary),
      element("ul", {}, ...warnings.map((warning) => element("li", {}, warning))),
    ),
  ];
}

function factsView(facts) {
  const told = Object.entries(facts).filter(([, value]) => value !== "");
  return element(
    "dl",
    { class: "facts" },
    ...told.map(([key, value]) => element("div", {}, element("dt", {}, key), element("dd", {}, value))),
  );
}

function switches(id, name, choices, changed) {
  const off = new Set();
  const boxes = choices.map(({ value, text, look }, index) => {
    const box = element("input", {
      type: "checkbox",
      id: `${id}-${index}`,
      checked: true,
      onchange: () => {
        if (box.checked) off.delete(value);
        else off.add(value);
        changed();
      },
    });
    return element("label", {}, box, ...(look ? [lineKey(look)] : []), text);
  });
  return {
    on: (value) => !off.has(value),
    view: element(
      "div",
      { class: "switches", role: "group", "aria-label": name },
      element("span", { class: "quiet" }, name),
      ...boxes,
    ),
  };
}

/** From the lowest accuracy after the first tenth of the epochs, where runs differ by little, to the highest. */
function settledRange(lines) {
  const finite = (values) => values.filter((value) => value !== null);
  const settled = lines.flatMap((line) => finite(line.y.slice(Math.floor(line.y.length / 10))));
  if (!settled.length) return [0, 100];
  const low = settled.reduce((a, b) => Math.min(a, b)),
    high = highest(lines.flatMap((line) => finite(line.y)));
  const margin = 0.05 * (high - low) || 1;
  return [Math.max(0, low - margin), high + margin];
}

function trainingView(group, id) {
  const charts = [];
  const redraw = () => charts.forEach((chart) => chart.redraw());
  const stages = switches(
    `${id}-stage`,
    "methods",
    Object.entries(group.stages).map(([value, look]) => ({ value, text: look.title, look })),
    redraw,
  );
  const seeds = switches(
    `${id}-seed`,
    "seeds",
    [...new Set(group.runs.map((run) => run.seed))].map((value) => ({ value, text: String(value) })),
    redraw,
  );
  const lines = (column, scale) => () =>
    group.runs
      .filter((run) => stages.on(run.stage) && seeds.on(run.seed))
      .map((run) => ({
        name: runName(group, run),
        look: group.stages[run.stage],
        x: run.curves.epoch,
        y: scaled(run.curves[column], scale),
      }));
  const epochs = highest(group.runs.map((run) => highest(run.curves.epoch))) + 1;
  charts.push(
    epochChart({
      label: "test accuracy (percent)",
      epochs,
      range: settledRange,
      format: percent,
      series: lines("accuracy", 1),
    }),
  );
  charts.push(
    epochChart({
      label: "pruned weights (percent)",
      epochs,
      range: () => [0, 100],
      format: percent,
      series: lines("sparsity", 100),
    }),
  );
  const titles = ["Test accuracy (%) over epochs", "Pruned weights (%) over epochs"];
  return [
    stages.view,
    seeds.view,
    element(
      "div",
      { class: "pair" },
      ...charts.map((chart, index) => element("div", { class: "card" }, element("h3", {}, titles[index]), chart.place)),
    ),
  ];
}

function madeView(group) {
  const runs = group.runs.map((run) =>
    element(
      "details",
      { class: "run" },
      element("summary", {}, `${runName(group, run)} `, element("span", { class: "quiet" }, run.path)),
      ...(run.command === null ? [] : [element("pre", {}, run.command)]),
      ...(run.note ? [element("p", {}, run.note)] : []),
      factsView(run.environment),
    ),
  );
  return element("div", { class: "card" }, element("h3", {}, "How each run was made"), ...runs);
}

function recipeView(group, index) {
  const id = `recipe-${index}`;
  const views = [
    seedsTable(group),
    runsTable(group),
    ...trainingView(group, id),
    layersView(group, id),
    group.schedule && scheduleView(group, id),
    madeView(group),
  ];
  return element(
    "section",
    { class: "recipe", id, "aria-labelledby": `${id}-heading` },
    element("h2", { id: `${id}-heading` }, group.recipe),
    ...(group.title ? [element("p", { class: "quiet" }, group.title)] : []),
    factsView(group.facts),
    ...views.filter((view) => view !== null),
  );
}

function contents(groups) {
  if (groups.length < 2) return [];
  const links = groups.map((group, index) =>
    element("li", {}, element("a", { href: `#recipe-${index}` }, group.recipe)),
  );
  return [element("nav", { "aria-label": "recipes" }, element("ul", {}, ...links))];
}

/** While trainings go on: load the page again when its runs have changed, and keep what was chosen. */
function followServer(version) {
  const controls = () => [...document.querySelectorAll("input[id], select[id]")];
  const remembered = JSON.parse(sessionStorage.getItem("choices") ?? "{}");
  for (const control of controls().filter(({ id }) => id in remembered)) {
    if (control.type === "checkbox") control.checked = remembered[control.id];
    else control.value = remembered[control.id];
    control.dispatchEvent(new Event(control.type === "range" ? "input" : "change"));
  }
  const changed = new Set(Object.keys(remembered));
  for (const kind of ["input", "change"]) document.addEventListener(kind, ({ target }) => changed.add(target.id));
  setInterval(async () => {
    const answer = await fetch("version").catch(() => null);
    if (!answer?.ok || (await answer.text()) === version) return;
    const chosen = controls()
      .filter(({ id }) => changed.has(id))
      .map((each) => [each.id, each.type === "checkbox" ? each.checked : each.value]);
    sessionStorage.setItem("choices", JSON.stringify(Object.fromEntries(chosen)));
    location.reload();
  }, 2000);
}

function show(data) {
  document.title = `asni: ${data.name}`;
  const count = data.groups.reduce((sum, group) => sum + group.runs.length, 0);
  document
    .getElementById("report")
    .append(
      element("h1", {}, data.name),
      element(
        "p",
        { class: "quiet" },
        count ? `${counted(count, "run")} of ${counted(data.groups.length, "recipe")}` : "No run to show here yet.",
      ),
      ...warningsView(data.warnings),
      ...contents(data.groups),
      ...data.groups.map(recipeView),
    );
  if (data.version !== null) followServer(data.version);
}

show(JSON.parse(document.getElementById("data").textContent));
