// The runs of one recipe as a table that sorts by any column.

function difference(run) {
  return run.paper === null || !run.finished || run.accuracy === "NaN" ? null : run.accuracy - run.paper;
}

function signed(value) {
  const text = `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
  return element("span", { class: value < 0 ? "worse" : "better" }, text);
}

function columnsOf(group) {
  const columns = [
    { heading: "variant", value: (run) => group.stages[run.stage].title, cell: (run) => nameCell(group, run) },
    { heading: "seed", value: (run) => run.seed, format: String },
    { heading: "accuracy", value: (run) => run.accuracy, format: percent },
    { heading: "nonzeros", value: (run) => run.nonzeros, format: whole },
    { heading: "sparsity", value: (run) => run.sparsity, format: fraction },
    { heading: "total sparsity", value: (run) => run.total_sparsity, format: fraction },
    { heading: "seconds", value: (run) => run.seconds, format: (value) => value.toFixed(1) },
  ];
  if (group.runs.some((run) => run.paper !== null)) {
    columns.push({ heading: "paper", value: (run) => run.paper, format: percent });
    columns.push({ heading: "difference", value: difference, format: signed });
  }
  return columns;
}

function nameCell(group, run) {
  const notes = [];
  if (run.precision !== "fp32") notes.push(run.precision);
  if (!run.finished) notes.push(`${run.epochs_done} of ${group.facts.epochs} epochs`);
  const name = element("span", {}, group.stages[run.stage].title);
  return notes.length ? element("span", {}, name, element("span", { class: "quiet" }, notes.join(", "))) : name;
}

/** NaN and missing values come last in either direction. */
function compared(a, b, direction) {
  const blank = (value) => value === null || value === "NaN";
  if (blank(a) || blank(b)) return blank(a) - blank(b);
  return direction * (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
}

function runsTable(group) {
  const columns = columnsOf(group);
  const body = element("tbody");
  const headings = columns.map((column) => {
    const heading = element("th", { scope: "col" }, element("button", { type: "button", onclick: () => sort(column, heading) }, column.heading));
    return heading;
  });

  function fill(runs) {
    body.replaceChildren(...runs.map((run) => element("tr", { title: run.path }, ...columns.map((column) =>
      element("td", {}, column.cell ? column.cell(run) : shown(column.value(run), column.format))))));
  }

  function sort(column, heading) {
    const up = heading.getAttribute("aria-sort") !== "ascending";
    headings.forEach((each) => each.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
    fill([...group.runs].sort((a, b) => compared(column.value(a), column.value(b), up ? 1 : -1)));
  }

  fill(group.runs);
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...headings)), body);
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "runs" }, table);
}
