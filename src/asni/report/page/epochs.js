// What the trainings reached, epoch by epoch.

/** Lines over epochs. `series()` gives what is to be drawn now: [{name, look, x, y, dots}]. */
function epochChart({ label, epochs, range, format, series }) {
  return readableChart(`${label} over epochs`, (width, height) => {
    const lines = series();
    const [low, high] = range(lines);
    const x = axis(0, Math.max(epochs - 1, 1), MARGIN.left, width - MARGIN.right),
      y = axis(low, high, height - MARGIN.bottom, MARGIN.top);
    const across = ticks(0, Math.max(epochs - 1, 1), width / 70).filter(Number.isInteger);
    const drawn = lines.flatMap((line) => (line.dots ? drawnDots(line, x, y) : [drawnLine(line, x, y)]));
    return {
      parts: [
        ...frame(width, height, x, y, across, ticks(low, high, 5), { x: "epoch" }),
        clipped(width, height, drawn),
      ],
      stops: {
        count: epochs,
        at: (epoch) => ({ x: x(epoch) }),
        tell: (epoch) => [
          element("b", {}, `epoch ${epoch}`),
          ...toldLines(lines, (line) => valueAt(line, epoch, format)),
        ],
      },
    };
  });
}

function drawnDots({ x: xs, y: ys }, x, y) {
  const there = xs.map((value, index) => [value, ys[index]]).filter(([, value]) => value !== null);
  return there.map(([cx, cy]) => drawing("circle", { class: "measured", r: 3, cx: x(cx), cy: y(cy) }));
}

function valueAt({ x, y }, epoch, format) {
  const index = x.indexOf(epoch);
  return index < 0 ? "–" : y[index] === null ? "NaN" : format(y[index]);
}

/** From the lowest accuracy after the first tenth of the epochs, where runs differ by little, to the highest. */
function settledRange(lines) {
  const finite = (values) => values.filter((value) => value !== null);
  const settled = lines.flatMap((line) => finite(line.y.slice(Math.floor(line.y.length / 10))));
  return settled.length ? rangeAround([lowest(settled), highest(lines.flatMap((line) => finite(line.y)))]) : [0, 100];
}

function trainingView(group, id) {
  const charts = [];
  const redraw = () => charts.forEach((chart) => chart.redraw());
  const stages = switches(
    `${id}-stage`,
    "methods",
    Object.entries(group.stages).map(([value, look]) => ({ value, text: look.title, key: lineKey(look) })),
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
