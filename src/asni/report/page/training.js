// Accuracy and sparsity of each method over epochs, and the switches for what is drawn.

function trainingView(group) {
  const { methods, rounds, options, keys } = trainingSwitches(group, redraw);
  const isOn = (stage) => (isMain(group, stage) ? methods.on(stage) : options.on("rounds") && rounds.on(stage));
  const chosen = () => group.runs.filter(({ stage }) => isOn(stage));
  const last = highest(group.runs.map((run) => highest(run.curves.epoch)));
  const bySeed = () => options.on("seeds");
  const lines = (column, scale) => hued(meanLines(group, chosen(), column, scale));

  const whole = switches("range", "axis", [{ value: "whole", text: "whole range", off: true }], redraw);
  const accuracyNote = element("p", { class: "caption" }),
    prunedNote = element("p", { class: "caption" });
  const accuracy = epochChart({
    label: "test accuracy (percent)",
    last,
    bySeed,
    range: (drawn) => (whole.on("whole") ? wholeRange(drawn) : settledRange(drawn)),
    series: () => lines("accuracy", 1),
    seen: (drawn, [low]) => {
      recolour(keys, drawn);
      whole.view.hidden = !isCut(drawn);
      accuracyNote.textContent = [...captions(drawn), ...notesBelow(drawn, low)].join(" ");
    },
  });
  const pruned = epochChart({
    label: "pruned weights (percent)",
    last,
    bySeed,
    range: () => [0, 100],
    series: () => lines("sparsity", 100),
    seen: (drawn) => (prunedNote.textContent = captions(drawn).join(" ")),
  });
  function redraw() {
    rounds.view.hidden = !options.on("rounds");
    accuracy.redraw();
    pruned.redraw();
  }
  const chartCard = (title, ...parts) =>
    element("div", { class: "card" }, element("h3", {}, markedTitle(title, group.runs)), ...parts);
  rounds.view.hidden = true;
  const again = byMethod(group.runs).flatMap((each) => each.again);
  return [
    methods.view,
    ...(options.view.querySelector("input") ? [options.view, rounds.view] : []),
    chartCard("Test accuracy (%) over epochs", accuracy.place, accuracyNote, whole.view, ...againNotes(again)),
    chartCard("Pruned weights (%) over epochs", pruned.place, prunedNote),
  ];
}

/** Whether a stage is shown at first: a method's last training, or anything if there are only intermediate ones. */
function isMain({ stages }, stage) {
  return stages[stage].last || !Object.values(stages).some(({ last }) => last);
}

/** Switches for methods, for intermediate trainings, and for what is shown of them; `keys` are the samples of lines. */
function trainingSwitches(group, redraw) {
  const stages = Object.keys(group.stages);
  const keys = Object.fromEntries(stages.map((stage) => [stage, lineKey(group.stages[stage])]));
  const choices = stages.map((value) => {
    const runs = group.runs.filter((run) => run.stage === value);
    return { value, text: markedName(group.stages[value].title, runs), line: keys[value] };
  });
  const main = choices.filter(({ value }) => isMain(group, value)),
    others = choices.filter(({ value }) => !isMain(group, value));
  const several = byMethod(group.runs).some(({ runs }) => runs.length > 1);
  const shown = [
    ...(several ? [{ value: "seeds", text: "single seeds", off: true }] : []),
    ...(others.length ? [{ value: "rounds", text: "intermediate trainings", off: true }] : []),
  ];
  const methods = switches("stage", "methods", main, redraw),
    rounds = switches("round", "intermediate trainings", others, redraw);
  return {
    methods: { on: methods.on, view: folded(methods.view, main.length, "methods") },
    rounds: { on: rounds.on, view: folded(rounds.view, others.length, "intermediate trainings") },
    options: switches("curves", "show", shown, redraw),
    keys,
  };
}

function recolour(keys, lines) {
  for (const { stage, look } of lines) keys[stage].querySelector(".series").style.setProperty("--series", look.colour);
}

function captions(lines) {
  return [
    ...(lines.some(({ seeds }) => seeds.length > 1)
      ? ["Line: mean over seeds; band: from the lowest to the highest seed."]
      : []),
    ...overFewerSeeds(lines),
    ...(lines.length > MOST_HUES ? ["Grey: the other methods."] : []),
  ];
}

/** A mean jumps where a seed ends or has lost epochs: that is no change of any network. */
function overFewerSeeds(lines) {
  const parts = lines.flatMap(({ name, x, seeds }) => {
    const fewer = x.filter((epoch) => seeds.some((seed) => !seed.x.includes(epoch)));
    if (!fewer.length) return [];
    const isEnd = x[x.length - fewer.length] === fewer[0];
    return [`${name} ${isEnd ? `from epoch ${fewer[0]}` : `at ${counted(fewer.length, "epoch")}`}`];
  });
  return parts.length ? [`Over fewer seeds: ${parts.join("; ")}.`] : [];
}
