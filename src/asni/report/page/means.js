// Mean and band over the seeds of each method, and names that say what a reader must know before comparing.

const SHORTENED = "shortened"; // a whole recipe is: the heading of a chart says so, once for all of its names

/** The name with the marks of its runs: "SNIP (at chance)", or "SNIP (1 of 3 diverged)". */
function markedName(name, runs) {
  const marks = marksOf({ runs }).filter((mark) => mark !== SHORTENED);
  return marks.length ? `${name} (${marks.join(", ")})` : name;
}

function markedTitle(title, runs) {
  return element("span", {}, title, ...markViews(isMarked(runs, SHORTENED) ? [SHORTENED] : []));
}

function methodName({ title }, { precision }) {
  return precision === "fp32" ? title : `${title}, ${precision}`;
}

function drawnRun(group, run) {
  return markedName(runName(group, run), [run]);
}

function isMarked(runs, ...wanted) {
  return runs.some(({ marks }) => marks.some((mark) => wanted.includes(mark)));
}

/** Whether the runs should not be compared with the others. */
function isFaint(runs) {
  return isMarked(runs, "diverged", "at chance", "unfinished");
}

/** Whether the runs tell nothing about the range in which the others should be read. */
function isAstray(runs) {
  return isMarked(runs, "diverged", "at chance");
}

/** The runs of each method and precision, one per seed; `again` are runs that repeat a seed. */
function byMethod(runs) {
  const methods = new Map();
  for (const run of runs) {
    const key = JSON.stringify([run.stage, run.precision]);
    if (!methods.has(key)) methods.set(key, { bySeed: new Map(), again: [] });
    const { bySeed, again } = methods.get(key);
    if (bySeed.has(run.seed)) again.push(run);
    else bySeed.set(run.seed, run);
  }
  return [...methods.values()].map(({ bySeed, again }) => ({ runs: [...bySeed.values()], again }));
}

/**
 * A line for each method and precision: its mean `y`, from the `low`est to the `high`est of its `seeds`. Seeds that
 * ended early count as far as they go; where one is NaN, so is the mean.
 */
function meanLines(group, runs, column, scale) {
  return byMethod(runs).map(({ runs: own }) => {
    const { stage } = own[0];
    const seeds = own.map(({ seed, curves }) => ({ seed, x: curves.epoch, y: scaled(curves[column], scale) }));
    const x = seeds.reduce((longest, seed) => (seed.x.length > longest.length ? seed.x : longest), []);
    const at = x.map((_, index) => seeds.filter(({ y }) => index < y.length).map(({ y }) => y[index]));
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
