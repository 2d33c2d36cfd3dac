// The page: warnings, then each recipe with its tables, figures, schedule and how its runs were made.

function runName(group, run) {
  const alike = group.runs.filter((each) => each.stage === run.stage && each.seed === run.seed).length > 1;
  return `${group.stages[run.stage].title}, seed ${run.seed}${alike ? ` (${run.path})` : ""}`;
}

/** A select of runs, initially `chosen`; `run()` returns the selected run, or null if there is none. */
function runChooser(key, group, runs, chosen, onchange) {
  const options = runs.map((run) => [run.path, drawnRun(group, run)]);
  const view = chooser(key, options, onchange);
  if (chosen) view.value = chosen.path;
  return { view, run: () => runs.find(({ path }) => path === view.value) ?? null };
}

function warningsView(warnings) {
  if (!warnings.length) return [];
  const summary = counted(warnings.length, "warning");
  return [
    element(
      "details",
      { class: "warnings", open: true },
      element("summary", { "data-key": "warnings" }, summary),
      element("ul", {}, ...warnings.map((warning) => element("li", {}, warning))),
    ),
  ];
}

function factsView(facts) {
  const present = Object.entries(facts).filter(([, value]) => value !== "");
  return element(
    "dl",
    { class: "facts" },
    ...present.map(([key, value]) => element("div", {}, element("dt", {}, key), element("dd", {}, value))),
  );
}

function madeView(group) {
  const runs = group.runs.map((run) =>
    element(
      "details",
      { class: "run" },
      element(
        "summary",
        { "data-key": run.path },
        `${runName(group, run)} `,
        element("span", { class: "quiet" }, run.path),
      ),
      ...(run.command === null ? [] : [element("pre", {}, run.command)]),
      ...(run.note ? [element("p", {}, run.note)] : []),
      factsView(run.environment),
    ),
  );
  return element("div", { class: "card" }, element("h3", {}, "How each run was made"), ...runs);
}

function recipeView(group, index, groups) {
  const id = `recipe-${index}`;
  const exists = (view) => view !== null;
  const networks = [sizesView(group, groups), group.distribution && distributionView(group)].filter(exists);
  const views = [
    seedsTable(group),
    runsTable(group),
    ...trainingView(group),
    networks.length ? element("div", { class: "pair" }, ...networks) : null,
    layersView(group),
    group.schedule && scheduleView(group, id),
    madeView(group),
  ];
  return element(
    "section",
    { class: "recipe", id, "aria-labelledby": `${id}-heading`, "data-key": recipeKey(group) },
    element("h2", { id: `${id}-heading` }, group.recipe),
    ...(group.title ? [element("p", { class: "quiet" }, group.title)] : []),
    factsView(group.facts),
    ...views.filter(exists),
  );
}

/** Includes the facts, since two recipes may share a name. */
function recipeKey({ recipe, facts }) {
  return JSON.stringify([recipe, facts]);
}

function contents(groups) {
  if (groups.length < 2) return [];
  const links = groups.map((group, index) =>
    element("li", {}, element("a", { href: `#recipe-${index}`, "data-key": recipeKey(group) }, group.recipe)),
  );
  return [element("nav", { "aria-label": "recipes", "data-key": "recipes" }, element("ul", {}, ...links))];
}

function show(data) {
  document.title = `asni: ${data.name}`;
  const count = data.groups.reduce((sum, group) => sum + group.runs.length, 0);
  document.body.append(hatches());
  document
    .getElementById("report")
    .append(
      element("h1", {}, data.name),
      element(
        "p",
        { class: "quiet" },
        count ? `${counted(count, "run")} of ${counted(data.groups.length, "recipe")}` : "No runs to show yet.",
      ),
      ...warningsView(data.warnings),
      ...contents(data.groups),
      ...data.groups.map(recipeView),
    );
  if (data.version !== null) followServer(data.version);
}

show(JSON.parse(document.getElementById("data").textContent));
