// The runs of each method, and their mean and band over seeds.

function methodName({ title }, { precision }) {
  return precision === "fp32" ? title : `${title}, ${precision}`;
}

function drawnRun(group, run) {
  return markedName(runName(group, run), [run]);
}

function methodKey({ stage, precision }) {
  return JSON.stringify([stage, precision]);
}

/** The runs of each method and precision, one per seed; `again` are runs that repeat a seed. */
function byMethod(runs) {
  const methods = new Map();
  for (const run of runs) {
    const key = methodKey(run);
    if (!methods.has(key)) methods.set(key, { bySeed: new Map(), again: [] });
    const { bySeed, again } = methods.get(key);
    if (bySeed.has(run.seed)) again.push(run);
    else bySeed.set(run.seed, run);
  }
  return [...methods.values()].map(({ bySeed, again }) => ({ runs: [...bySeed.values()], again }));
}

/**
 * A line for each method and precision: its mean `y`, from the `low`est to the `high`est of its `seeds`. A seed counts
 * at the epochs that it has; where one is NaN, so is the mean.
 */
function meanLines(group, runs, column, scale) {
  return byMethod(runs).map(({ runs: own }) => {
    const { stage } = own[0];
    const seeds = own.map(({ seed, curves }) => ({ seed, x: curves.epoch, y: scaled(curves[column], scale) }));
    const byEpoch = seeds.map(({ x, y }) => new Map(x.map((epoch, index) => [epoch, y[index]])));
    const x = [...new Set(seeds.flatMap((seed) => seed.x))].sort((a, b) => a - b);
    const at = x.map((epoch) => byEpoch.filter((seed) => seed.has(epoch)).map((seed) => seed.get(epoch)));
    const over = (summary) => at.map((values) => (values.includes(null) ? null : summary(values)));
    return {
      stage,
      name: markedName(methodName(group.stages[stage], own[0]), own),
      look: group.stages[stage],
      faint: isFaint(own),
      astray: isAstray(own),
      ...{ x, y: over(mean), low: over(lowest), high: over(highest), seeds },
    };
  });
}
