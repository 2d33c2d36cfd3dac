// Distributions of all weights of a network, overlaid: initial, dense, and the result of each method.

function distributionView(group) {
  const { sets } = group.distribution;
  const stageOf = ({ run }) => (run === null ? null : group.runs[run].stage);
  const lookOf = (stage) => (stage === null ? group.initial : group.stages[stage]);
  const stages = switches(
    "distribution",
    "networks",
    [...new Map(sets.map((set) => [stageOf(set), set.compared]))].map(([stage, compared]) => ({
      value: stage,
      text: markedName(
        lookOf(stage).title,
        sets.filter((set) => stageOf(set) === stage && set.run !== null).map((set) => group.runs[set.run]),
      ),
      off: !compared,
      line: lineKey(lookOf(stage)),
    })),
    () => chart.redraw(),
  );
  const seeds = [...new Set(sets.map(({ seed }) => seed))].sort((a, b) => a - b);
  const seedChooser = chooser(
    "distribution-seed",
    seeds.map((seed) => [seed, seed]),
    () => chart.redraw(),
  );
  const note = element("p", { class: "quiet" });
  const chart = distributionChart(group.distribution, note, () =>
    sets
      .filter((set) => set.seed === Number(seedChooser.value) && stages.on(stageOf(set)))
      .map((set) => ({
        name: set.run === null ? `${group.initial.title}, seed ${set.seed}` : drawnRun(group, group.runs[set.run]),
        look: lookOf(stageOf(set)),
        counts: set.counts,
        y: scaled(set.counts, 100 / set.weights),
        outside: 100 * (1 - set.counts.reduce((sum, count) => sum + count, 0) / set.weights),
      })),
  );
  const title = markedTitle("Weights of the whole network (% of surviving weights per bin)", group.runs);
  const networks = folded(stages.view, new Set(sets.map(stageOf)).size, "networks");
  return pickCard(title, labelled("seed", seedChooser), chart.place, networks, note);
}

/** `series()` returns the lines to draw: [{name, look, counts, y, outside}], with one value per bin. */
function distributionChart({ width: bin, first, sets }, note, series) {
  const count = sets[0].counts.length;
  const edge = (index) => (first + index) * bin;
  const middles = Array.from({ length: count }, (_, index) => edge(index + 0.5));
  return readableChart("distribution of the weights", (width) => {
    const lines = series();
    const { top, notes } = fittedPeak(lines);
    note.textContent = ["Pruned weights are not shown.", ...notes, ...farWeights(lines)].join(" ");
    const area = areaOf(width);
    const x = axis(edge(0), edge(count), area.left, area.right),
      y = axis(0, top, area.bottom, area.top);
    const across = ticks(edge(0), edge(count), width / 70);
    const drawn = lines.map((line) => drawnLine({ ...line, x: middles }, x, y));
    return {
      height: area.height,
      parts: [...frame(area, x, y, across, ticks(0, top, 5), { x: "weight" }), clipped(area, drawn)],
      stops: {
        count,
        resting: fullestBin(lines),
        at: (index) => ({ x: x(middles[index]) }),
        values: (index) => [
          element("b", {}, `${compact(edge(index))} to ${compact(edge(index + 1))}`),
          ...valueRows(lines, (line) => `${percent(line.y[index])} (${whole(line.counts[index])})`),
        ],
      },
    };
  });
}

/** Weight decay can push most weights to zero: a peak that would flatten the other lines is cut off and noted below. */
function fittedPeak(lines) {
  const peaks = lines.map(({ name, y }) => ({ name, height: highest(y) })).sort((a, b) => b.height - a.height);
  const [first, next] = peaks;
  const room = next ? 2.5 * next.height : 0;
  return 0 < room && room < first.height
    ? { top: 1.05 * room, notes: [`${first.name} peaks at ${percent(first.height)}, above the chart.`] }
    : { top: 1.05 * (first?.height || 1), notes: [] };
}

function fullestBin(lines) {
  const [fullest] = lines.map(({ y }) => ({ y, height: highest(y) })).sort((a, b) => b.height - a.height);
  return fullest ? fullest.y.indexOf(fullest.height) : 0;
}

function farWeights(lines) {
  const far = lines.filter(({ outside }) => outside >= 1);
  return far.map(({ name, outside }) => `${name}: ${percent(outside)} of the weights are outside the chart.`);
}
