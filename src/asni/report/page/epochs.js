// Accuracy and sparsity of the runs over epochs.

/** Lines over the epochs up to `last`. `series()` returns the lines to draw: [{name, look, x, y, dots}]. */
function epochChart({ label, last, range, series }) {
  return readableChart(`${label} over epochs`, (width, height) => {
    const lines = series();
    const [low, high] = range(lines);
    const x = axis(0, Math.max(last, 1), MARGIN.left, width - MARGIN.right),
      y = axis(low, high, height - MARGIN.bottom, MARGIN.top);
    const across = ticks(0, Math.max(last, 1), width / 70).filter(Number.isInteger);
    const drawn = lines.flatMap((line) => (line.dots ? drawnDots(line, x, y) : [drawnLine(line, x, y)]));
    const epochs = measuredEpochs(lines, last);
    return {
      parts: [
        ...frame(width, height, x, y, across, ticks(low, high, 5), { x: "epoch" }),
        clipped(width, height, drawn),
      ],
      stops: {
        count: epochs.length,
        at: (stop) => ({ x: x(epochs[stop]) }),
        tip: (stop) => [
          element("b", {}, `epoch ${epochs[stop]}`),
          ...tipLines(lines, (line) => valueAt(line, epochs[stop])),
        ],
      },
    };
  });
}

/** The epochs in the data, not all up to the last: its number comes from a file and may be huge. */
function measuredEpochs(lines, last) {
  const epochs = new Set(lines.flatMap((line) => line.x));
  return [...epochs].filter((epoch) => epoch <= last).sort((a, b) => a - b);
}

function drawnDots({ x: xs, y: ys }, x, y) {
  const present = xs.map((value, index) => [value, ys[index]]).filter(([, value]) => value !== null);
  return present.map(([cx, cy]) => drawing("circle", { class: "measured", r: 3, cx: x(cx), cy: y(cy) }));
}

function valueAt({ x, y }, epoch) {
  const index = x.indexOf(epoch);
  return index < 0 ? "–" : y[index] === null ? "NaN" : percent(y[index]);
}

/** From the lowest accuracy after the first tenth of the epochs to the highest, so that small differences show. */
function settledRange(lines) {
  const finite = (values) => values.filter((value) => value !== null);
  const settled = lines.flatMap((line) => finite(line.y.slice(Math.floor(line.y.length / 10))));
  return settled.length ? rangeAround([lowest(settled), highest(lines.flatMap((line) => finite(line.y)))]) : [0, 100];
}

function trainingView(group) {
  const stages = switches(
    "stage",
    "methods",
    Object.entries(group.stages).map(([value, look]) => ({ value, text: look.title, line: lineKey(look) })),
    redraw,
  );
  const seeds = switches(
    "seed",
    "seeds",
    [...new Set(group.runs.map((run) => run.seed))].map((value) => ({ value, text: String(value) })),
    redraw,
  );
  const last = highest(group.runs.map((run) => highest(run.curves.epoch)));
  const runs = () => group.runs.filter((run) => stages.on(run.stage) && seeds.on(run.seed));
  const accuracy = epochChart({
    label: "test accuracy (percent)",
    last,
    range: settledRange,
    series: () => runLines(group, runs(), "accuracy", 1),
  });
  const pruned = epochChart({
    label: "pruned weights (percent)",
    last,
    range: () => [0, 100],
    series: () => runLines(group, runs(), "sparsity", 100),
  });
  function redraw() {
    accuracy.redraw();
    pruned.redraw();
  }
  const chartCard = (title, chart) => element("div", { class: "card" }, element("h3", {}, title), chart.place);
  const cards = [
    chartCard("Test accuracy (%) over epochs", accuracy),
    chartCard("Pruned weights (%) over epochs", pruned),
  ];
  return [stages.view, seeds.view, element("div", { class: "pair" }, ...cards)];
}

function runLines(group, runs, column, scale) {
  return runs.map((run) => ({
    name: runName(group, run),
    look: group.stages[run.stage],
    x: run.curves.epoch,
    y: scaled(run.curves[column], scale),
  }));
}
