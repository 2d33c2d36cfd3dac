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

function recipeView(group, index, groups) {
  const id = `recipe-${index}`;
  const there = (view) => view !== null;
  const networks = [sizesView(group, groups, id), group.distribution && distributionView(group, id)].filter(there);
  const views = [
    seedsTable(group),
    runsTable(group),
    ...trainingView(group, id),
    networks.length ? element("div", { class: "pair" }, ...networks) : null,
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
    ...views.filter(there),
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
  document.body.append(hatches());
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
