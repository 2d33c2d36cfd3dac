// The pruning schedule to play with: alpha, beta and gamma, what they leave, and what a run really did.

function sigmoid(x) {
  return x < 0 ? Math.exp(x) / (1 + Math.exp(x)) : 1 / (1 + Math.exp(-x));
}

/** Percent pruned after each epoch. The last pruning follows the last epoch but one; the last epoch heals. */
function scheduled({ alpha, beta, gamma }, epochs) {
  const last = Math.max(epochs - 2, 0);
  return Array.from({ length: epochs }, (_, epoch) =>
    Math.min(100, alpha * sigmoid((Math.min(epoch, last) - beta * epochs) / gamma)),
  );
}

function nonzerosLeft({ parameters, prunable }, prunedPercent) {
  return parameters - prunable + Math.round(prunable * (1 - prunedPercent / 100));
}

function scheduleView(group, id) {
  const own = group.schedule;
  const runs = group.runs.filter((run) => run.sparsity > 0);
  let run = runs.find((each) => each.stage === "asni-1") ?? runs[0] ?? null;
  const now = { alpha: own.alpha, beta: own.beta, gamma: own.gamma };
  const outcome = element("p", { class: "outcome", id: `${id}-outcome`, "aria-live": "polite" });
  const look = group.stages["asni-1"] ?? { colour: "#0072B2", dashes: [] };
  const chart = epochChart({
    label: "pruned weights (percent)",
    epochs: own.epochs,
    format: percent,
    range: () => [0, 100],
    series: () => [
      {
        name: "schedule",
        look: { ...look, dashes: [] },
        x: [...Array(own.epochs).keys()],
        y: scheduled(now, own.epochs),
      },
      ...(run
        ? [{ name: runName(group, run), dots: true, x: run.curves.epoch, y: scaled(run.curves.sparsity, 100) }]
        : []),
    ],
  });

  function update() {
    outcome.replaceChildren(...outcomeOf(group, now, run));
    chart.redraw();
  }
  const { place, reset } = slidersOf(own, now, id, update);
  const runChooser = chooser(
    `${id}-schedule-run`,
    runs.map((each, index) => [index, runName(group, each)]),
    () => {
      run = runs[runChooser.value];
      update();
    },
  );
  if (run) runChooser.value = runs.indexOf(run);
  update();
  return element(
    "div",
    { class: "card" },
    element("h3", {}, "The schedule: pruned weights (%) over epochs"),
    element(
      "div",
      { class: "pair" },
      element(
        "div",
        {},
        place,
        outcome,
        element("div", { class: "pick" }, ...(run ? [labelled("circles", runChooser)] : []), reset),
      ),
      chart.place,
    ),
  );
}

function slidersOf(own, now, id, update) {
  const ranges = {
    alpha: { min: 0, max: Math.max(110, 1.1 * own.alpha), help: "height in percent" },
    beta: { min: 0, max: 1, help: "where the curve is steepest, as a fraction of the epochs" },
    gamma: { min: Math.min(0.1, own.gamma), max: Math.max(own.epochs, own.gamma), help: "width in epochs" },
  };
  const place = element("div", { class: "sliders" });
  const inputs = {};
  for (const [key, { min, max, help }] of Object.entries(ranges)) {
    const output = element("output", { for: `${id}-${key}` });
    const input = element("input", {
      type: "range",
      id: `${id}-${key}`,
      min,
      max,
      step: "any",
      title: help,
      oninput: () => set(Number(input.value)),
    });
    const set = (value) => {
      now[key] = value;
      output.textContent = value.toFixed(2);
      update();
    };
    input.value = own[key];
    output.textContent = own[key].toFixed(2);
    inputs[key] = { input, set };
    place.append(element("label", { for: input.id, title: help }, key), input, output);
  }
  const reset = element(
    "button",
    {
      type: "button",
      class: "reset",
      onclick: () => {
        for (const [key, { input, set }] of Object.entries(inputs)) {
          input.value = own[key];
          set(own[key]);
        }
      },
    },
    "back to the recipe",
  );
  return { place, reset };
}

function outcomeOf(group, now, run) {
  const own = group.schedule;
  const pruned = scheduled(now, own.epochs)[own.epochs - 1];
  const parts = [];
  if (own.prunable) parts.push(element("b", {}, whole(nonzerosLeft(own, pruned))), " nonzeros at the end, ");
  parts.push(`${percent(pruned)} of the prunable weights pruned`);
  if (pruned >= 100) parts.push(": nothing would be left");
  const beside = [];
  if (run && run.nonzeros !== "NaN") beside.push(`${runName(group, run)}: ${whole(run.nonzeros)}`);
  if (group.paper_nonzeros) beside.push(`paper: ${whole(group.paper_nonzeros)}`);
  if (beside.length) parts.push(element("br"), element("span", { class: "quiet" }, beside.join(" · ")));
  return parts;
}
