// The page: each recipe with what it achieved, its figures, its schedule, its tables and how its runs were made.

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
  return foldedCard("How each run was made", false, ...runs);
}

/** Without `headline` the story is told at the head of the page. */
function recipeView(group, index, groups, headline = true) {
  const id = `recipe-${index}`;
  const exists = (view) => view !== null;
  const networks = [sizesView(group, groups), group.distribution && distributionView(group)].filter(exists);
  const views = [
    headline ? storyView(group) : null,
    factsView(group.facts),
    rankingView(group),
    ...trainingView(group),
    networks.length ? element("div", { class: "pair" }, ...networks) : null,
    layersView(group),
    group.schedule && scheduleView(group, id),
    seedsTable(group),
    runsTable(group),
    madeView(group),
  ];
  return element(
    "section",
    { class: "recipe", id, "aria-labelledby": `${id}-heading`, "data-key": recipeKey(group) },
    element("h2", { id: `${id}-heading` }, group.heading),
    ...(group.title && headline ? [element("p", { class: "quiet" }, group.title)] : []),
    ...views.filter(exists),
  );
}

/** Includes the facts, since two recipes may share a name. */
function recipeKey({ recipe, facts }) {
  return JSON.stringify([recipe, facts]);
}

/** The groups with headings; recipes of the same name are numbered. */
function withHeadings(groups) {
  const times = new Map();
  return groups.map((group) => {
    const { recipe } = group;
    times.set(recipe, (times.get(recipe) ?? 0) + 1);
    const isAlone = groups.filter((each) => each.recipe === recipe).length === 1;
    return { ...group, heading: isAlone ? recipe : `${recipe} (${times.get(recipe)})` };
  });
}

/** A link to each recipe, and what it achieved. */
function contents(groups) {
  const items = groups.map((group, index) =>
    element(
      "li",
      {},
      element("a", { href: `#recipe-${index}`, "data-key": recipeKey(group) }, group.heading),
      ...(group.story ? [" ", element("small", {}, group.story.sentence)] : []),
    ),
  );
  return element("nav", { "aria-label": "recipes", "data-key": "recipes" }, element("ul", {}, ...items));
}

/** A page about one recipe begins with its story, one about several with all of their sentences. */
function headOf({ name, groups, notices }) {
  const count = groups.reduce((sum, group) => sum + group.runs.length, 0);
  const [only] = groups.length === 1 ? groups : [];
  const first = only ? storyView(only) : groups.length ? contents(groups) : null;
  const what = count ? `${counted(count, "run")} of ${counted(groups.length, "recipe")}` : "No runs to show yet.";
  return [
    element(
      "header",
      { class: only ? "page one" : "page" },
      element("h1", {}, only ? only.title || only.recipe : name),
      element("p", { class: "quiet" }, only ? `${what}, in ${name}` : what),
    ),
    ...(first ? [first] : []),
    ...noticesView(notices),
  ];
}

function show(data) {
  document.title = `asni: ${data.name}`;
  document.body.append(hatches());
  const groups = withHeadings(data.groups);
  const sections = groups.map((group, index) => recipeView(group, index, groups, groups.length > 1));
  document.getElementById("report").append(...headOf({ ...data, groups }), ...sections);
  if (data.version !== null) followServer(data.version);
}

show(JSON.parse(document.getElementById("data").textContent));
