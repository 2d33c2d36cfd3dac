// The runs of one recipe, and their means over seeds, as sortable tables.

function difference(run) {
  return run.paper === null || !run.finished || run.accuracy === "NaN" ? null : run.accuracy - run.paper;
}

function signed(value) {
  if (Math.abs(value) < 0.005) return "0.00";
  const text = `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
  return element("span", { class: value < 0 ? "worse" : "better" }, text);
}

function columnsOf(group) {
  const columns = [
    { heading: "variant", value: (run) => group.stages[run.stage].title, cell: (run) => nameCell(group, run) },
    { heading: "accuracy", value: (run) => run.accuracy, format: percent },
    { heading: "nonzeros", value: (run) => run.nonzeros, format: whole },
    { heading: "seed", value: (run) => run.seed, format: String },
    { heading: "sparsity", value: (run) => run.sparsity, format: fraction },
    { heading: "total sparsity", value: (run) => run.total_sparsity, format: fraction },
    ...macColumn(group),
    { heading: "seconds", value: (run) => run.seconds, format: (value) => value.toFixed(1) },
  ];
  if (group.runs.some((run) => run.paper !== null)) {
    columns.push({ heading: "paper", value: (run) => run.paper, format: percent });
    columns.push({ heading: "difference", value: difference, format: signed });
  }
  return columns;
}

/** The part of the dense network's multiplications that is left, if a run knows it. */
function macColumn({ runs }) {
  const isKnown = runs.some((run) => run.mac_density !== null);
  return isKnown ? [{ heading: "MAC density", value: (run) => run.mac_density, format: fraction }] : [];
}

/** The name of a run, or of the runs of a row, with what must be known about them. */
function nameCell(group, row) {
  const notes = [];
  if (row.precision !== "fp32") notes.push(row.precision);
  if (!row.finished) notes.push(`${row.epochs_done} of ${group.facts.epochs} epochs`);
  return element(
    "span",
    { class: "name" },
    group.stages[row.stage].title,
    ...notes.flatMap((note) => [" ", element("span", { class: "quiet" }, note)]),
    ...markViews(marksOf({ runs: row.runs ?? [row] })),
  );
}

/** NaN and missing values come last in either direction. */
function compared(a, b, direction) {
  const blank = (value) => value === null || value === "NaN";
  if (blank(a) || blank(b)) return blank(a) - blank(b);
  return direction * (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
}

/** `columns` are [{heading, value, format or cell}]; one row for each of `items`. `key` is what the rows are. */
function sortedTable(group, key, columns, items) {
  const body = element("tbody");
  const headings = columns.map((column) => {
    const heading = element(
      "th",
      { scope: "col" },
      element(
        "button",
        { type: "button", "data-key": column.heading, onclick: () => sort(column, heading) },
        column.heading,
      ),
    );
    return heading;
  });

  function fill(rows) {
    body.replaceChildren(
      ...rows.map((item) =>
        element(
          "tr",
          { title: item.path ?? null },
          ...columns.map((column) =>
            element("td", {}, column.cell ? column.cell(item) : shown(column.value(item), column.format)),
          ),
        ),
      ),
    );
  }

  function sort(column, heading) {
    const up = heading.getAttribute("aria-sort") !== "ascending";
    headings.forEach((each) => each.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
    fill([...items].sort((a, b) => compared(column.value(a), column.value(b), up ? 1 : -1)));
  }

  fill(items);
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...headings)), body);
  return scrolled(`${key} of ${group.heading}`, key, table);
}

/** A region as wide as its place; an edge is shaded if there is more of the table behind it. */
function scrolled(label, key, table) {
  const about = { class: "scroll", tabindex: "0", role: "region", "aria-label": label, "data-key": key };
  const region = element("div", { ...about, onscroll: shade }, table);
  function shade() {
    const behind = region.scrollWidth - region.clientWidth - region.scrollLeft;
    region.classList.toggle("more", behind > 1);
  }
  new ResizeObserver(shade).observe(region);
  return region;
}

/** A card that is unfolded by its title. */
function foldedCard(title, open, ...parts) {
  const summary = element("summary", { "data-key": `card ${title}` }, element("h3", {}, title));
  return element("details", { class: "card", open }, summary, ...parts);
}

function runsTable(group) {
  const parts = [sortedTable(group, "runs", columnsOf(group), group.runs)];
  if (group.facts.changed && group.runs.some((run) => run.paper !== null)) {
    parts.push(
      element(
        "p",
        { class: "quiet" },
        `The paper's numbers are for the unchanged recipe; these runs changed it (${group.facts.changed}).`,
      ),
    );
  }
  return foldedCard("Every run", !group.story, ...parts);
}

/** One row per method and precision, over its finished runs, as of `byMethod`; `started` counts the others too. */
function overSeeds({ runs: all }) {
  const started = new Map(byMethod(all).map(({ runs }) => [methodKey(runs[0]), runs.length]));
  return byMethod(all.filter(({ finished }) => finished)).map(({ runs, again }) => {
    const { stage, precision, finished, paper } = runs[0];
    const accuracies = runs.map((run) => run.accuracy);
    const means = {
      accuracy: mean(accuracies),
      spread: spread(accuracies),
      nonzeros: mean(runs.map((run) => run.nonzeros)),
      mac_density: meanIfKnown(runs.map((run) => run.mac_density)),
    };
    const counts = { seeds: runs.length, started: started.get(methodKey(runs[0])) };
    return { stage, precision, finished, paper, runs, again, ...counts, ...means };
  });
}

/** Null if no method has two seeds. */
function seedsTable(group) {
  const rows = overSeeds(group);
  if (!rows.some((row) => row.seeds > 1)) return null;
  const [variant, accuracy, nonzeros, ...others] = columnsOf(group);
  const paper = others.filter(({ heading }) => ["paper", "difference"].includes(heading));
  const columns = [
    variant,
    accuracy,
    nonzeros,
    ...macColumn(group),
    { heading: "spread", value: (row) => row.spread, format: (value) => `± ${value.toFixed(2)}` },
    { heading: "seeds", value: (row) => row.seeds, format: String },
    ...paper,
  ];
  return foldedCard(
    "Means over seeds",
    !group.story,
    sortedTable(group, "means over seeds", columns, rows),
    element("p", { class: "quiet" }, "spread: the standard deviation over seeds"),
    ...againNotes(rows.flatMap(({ again }) => again)),
  );
}

function againNotes(again) {
  const paths = again.map(({ path }) => path).join(", ");
  return paths ? [element("p", { class: "quiet" }, `Not in the mean, because the seed is repeated: ${paths}.`)] : [];
}

/** Null if a value is unknown. */
function meanIfKnown(values) {
  return values.includes(null) ? null : mean(values);
}

/** NaN if any value is NaN. */
function mean(values) {
  return values.includes("NaN") ? "NaN" : values.reduce((sum, value) => sum + value, 0) / values.length;
}

function spread(values) {
  if (values.length < 2) return null;
  const middle = mean(values);
  return middle === "NaN"
    ? "NaN"
    : Math.sqrt(values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1));
}
