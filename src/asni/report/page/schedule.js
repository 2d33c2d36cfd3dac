// The pruning schedule with sliders for alpha, beta and gamma, the nonzeros it leaves, and a run's measured sparsity.

function sigmoid(x) {
  return x < 0 ? Math.exp(x) / (1 + Math.exp(x)) : 1 / (1 + Math.exp(-x));
}

/**
 * Percent pruned after each epoch. `every` so many steps, a pruning follows the curve: the last one but one to its end,
 * and after that the network only trains.
 */
function scheduled(now, own) {
  // What the training follows; solved again from its alpha, a share could pass `least` by rounding.
  if (["alpha", "beta", "gamma"].every((key) => now[key] === own[key])) return own.planned;
  const { alpha, beta, gamma } = now;
  const { epochs, every, steps_per_epoch: steps } = own;
  const prunings = Math.floor((epochs * steps) / every);
  const last = Math.max(prunings - 2, 0);
  const width = (gamma * prunings) / epochs;
  const curve = Array.from({ length: last + 1 }, (_, pruning) =>
    Math.min(100, alpha * sigmoid((pruning - beta * prunings) / width)),
  );
  const pruned = own.least ? withoutSmallShares(curve, own) : curve;
  return Array.from({ length: epochs }, (_, epoch) => {
    const done = Math.floor(((epoch + 1) * steps) / every);
    return done ? pruned[Math.min(done - 1, last)] : 0;
  });
}

/** The rule of the authors' program: a pruning of at most `least` of the living weights is left out. */
function withoutSmallShares(curve, { least, prunable }) {
  const whole = prunable ?? 1;
  let alive = whole;
  let before = 0;
  return curve.map((percent) => {
    const share = before < 100 ? (percent - before) / (100 - before) : 0;
    if (share > least) alive -= prunable ? Math.trunc(alive * share) : alive * share;
    before = percent;
    return 100 * (1 - alive / whole);
  });
}

function nonzerosLeft({ parameters, prunable }, prunedPercent) {
  return parameters - prunable + Math.round(prunable * (1 - prunedPercent / 100));
}

function scheduleView(group, id) {
  const { alpha, beta, gamma } = group.schedule;
  const now = { alpha, beta, gamma };
  const runs = group.runs.filter((run) => run.sparsity > 0);
  const first = runs.find(({ stage }) => stage === "asni-1") ?? runs[0];
  const circles = runChooser("schedule-run", group, runs, first, update);
  const chart = scheduleChart(group, now, circles.run);
  const outcome = element("p", { class: "outcome", id: `${id}-outcome`, "aria-live": "polite" });
  const { place, reset } = slidersOf(group.schedule, now, id, update);

  function update() {
    outcome.replaceChildren(...outcomeOf(group, now, circles.run()));
    chart.redraw();
  }
  update();
  const pick = element("div", { class: "pick" }, ...(first ? [labelled("run (circles)", circles.view)] : []), reset);
  return element(
    "div",
    { class: "card" },
    element("h3", {}, markedTitle("Pruning schedule: pruned weights (%) over epochs", group.runs)),
    element("div", { class: "pair" }, element("div", {}, place, outcome, pick), chart.place),
  );
}

/** The curve of the current settings `now`, and circles for the run that `shownRun()` returns, if any. */
function scheduleChart(group, now, shownRun) {
  const { epochs } = group.schedule;
  const { colour } = group.stages["asni-1"] ?? { colour: "#0072B2" };
  const curve = { name: "schedule", look: { colour, dashes: [] }, x: [...Array(epochs).keys()] };
  return epochChart({
    label: "schedule of pruned weights (percent)",
    last: epochs - 1,
    range: () => [0, 100],
    series: () => {
      const run = shownRun();
      return [{ ...curve, y: scheduled(now, group.schedule) }, ...(run ? [measuredSparsity(group, run)] : [])];
    },
  });
}

function measuredSparsity(group, run) {
  return {
    name: drawnRun(group, run),
    look: { colour: "#000000", dashes: [] },
    x: run.curves.epoch,
    y: scaled(run.curves.sparsity, 100),
    dots: true,
  };
}

function slidersOf(own, now, id, update) {
  const ranges = {
    alpha: { min: 0, max: Math.max(110, 1.1 * own.alpha), help: "height of the curve in percent" },
    beta: { min: 0, max: 1, help: "where the curve is steepest, as a fraction of the epochs" },
    gamma: {
      min: Math.min(0.1, own.gamma),
      max: Math.max(own.epochs, own.gamma),
      help: "width of the curve in epochs",
    },
  };
  const place = element("div", { class: "sliders" });
  const inputs = {};
  for (const [key, { min, max, help }] of Object.entries(ranges)) {
    const output = element("output", { for: `${id}-${key}` });
    const input = element("input", {
      type: "range",
      id: `${id}-${key}`,
      "data-key": key,
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
  const toRecipe = () => {
    for (const [key, { input, set }] of Object.entries(inputs)) {
      input.value = own[key];
      set(own[key]);
    }
  };
  const button = { type: "button", class: "reset", "data-key": "reset", onclick: toRecipe };
  return { place, reset: element("button", button, "reset to the recipe") };
}

function outcomeOf(group, now, run) {
  const own = group.schedule;
  const pruned = scheduled(now, own)[own.epochs - 1];
  const parts = [];
  if (own.prunable) parts.push(element("b", {}, whole(nonzerosLeft(own, pruned))), " nonzeros at the end, ");
  parts.push(`${percent(pruned)} of the prunable weights pruned`);
  if (pruned >= 100) parts.push(": none of them would be left");
  const beside = [];
  if (run && run.nonzeros !== "NaN") beside.push(`${runName(group, run)}: ${whole(run.nonzeros)}`);
  if (group.paper_nonzeros) beside.push(`paper: ${whole(group.paper_nonzeros)}`);
  if (beside.length) parts.push(element("br"), element("span", { class: "quiet" }, beside.join(" · ")));
  return parts;
}
