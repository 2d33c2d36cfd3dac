// One run layer by layer: how much of each was pruned, and where the surviving weights of one lie.

function layersView(group, id) {
  const runs = group.runs.filter((run) => run.layers.length);
  if (!runs.length) return null;
  const look = (run) => group.stages[run.stage];
  const name = (run) => runName(group, run);
  let run = runs.find((each) => each.sparsity > 0) ?? runs[0],
    picked = 0;

  const runChooser = chooser(
    `${id}-layers-run`,
    runs.map((each, index) => [index, name(each)]),
    () => chooseRun(runs[runChooser.value]),
  );
  const layerChooser = chooser(`${id}-layer`, [], () => chooseLayer(Number(layerChooser.value)));
  runChooser.value = runs.indexOf(run);
  const bars = element("div", { class: "chart" }),
    histogram = element("div", { class: "chart" }),
    legend = element("div", { class: "legend" });
  const about = element("p", { class: "quiet" });
  const drawBars = fitted(bars, (width) => bars.replaceChildren(barsOf(run, look(run), picked, width, chooseLayer)));
  const drawHistogram = fitted(histogram, (width) =>
    histogram.replaceChildren(histogramOf(run.layers[picked], look(run), width)),
  );

  function chooseRun(chosen) {
    run = chosen;
    legend.replaceChildren(...placesLegend(run.layers));
    layerChooser.replaceChildren(...run.layers.map((layer, index) => element("option", { value: index }, layer.name)));
    chooseLayer(Math.min(picked, run.layers.length - 1));
  }

  function chooseLayer(index) {
    picked = index;
    layerChooser.value = index;
    about.textContent = describe(run.layers[index]);
    drawBars();
    drawHistogram();
  }
  chooseRun(run);
  return element(
    "div",
    { class: "pair" },
    element(
      "div",
      { class: "card" },
      element("h3", {}, "Pruned weights by layer"),
      element("div", { class: "pick" }, labelled("run", runChooser)),
      bars,
      legend,
    ),
    element(
      "div",
      { class: "card" },
      element("h3", {}, "Surviving weights of a layer"),
      element("div", { class: "pick" }, labelled("layer", layerChooser)),
      histogram,
      about,
    ),
  );
}

function describe(layer) {
  const centroid = (value) => (value === null ? "none" : value.toPrecision(4));
  const far = layer.outside ? ` ${whole(layer.outside)} more lie outside of the figure.` : "";
  return (
    `${whole(layer.survivors)} of ${whole(layer.weights)} weights live (${fraction(1 - layer.survivors / layer.weights)} pruned). ` +
    `Centroids (dashed): ${centroid(layer.negative)} and ${centroid(layer.positive)}.${far}`
  );
}

function barsOf(run, look, picked, width, choose) {
  const height = 240,
    count = run.layers.length;
  const x = axis(0, count, MARGIN.left, width - MARGIN.right),
    y = axis(0, 100, height - MARGIN.bottom, MARGIN.top);
  const svg = drawing("svg", {
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "pruned percent of each layer",
  });
  svg.append(...frame(width, height, x, y, [], ticks(0, 100, 5), { x: "layer (choose one by its bar)" }));
  const room = (x(1) - x(0)) * 0.82;
  run.layers.forEach((layer, index) => {
    const pruned = 100 * (1 - layer.survivors / layer.weights);
    const middle = x(index + 0.5),
      top = y(pruned);
    const part = partOf(layer);
    const name = part ? `${layer.name} (${PARTS[part].name})` : layer.name;
    const title = drawing("title", {}, `${name}: ${percent(pruned)} of ${whole(layer.weights)} pruned`);
    const bar = { x: middle - room / 2, width: room };
    svg.append(
      ...placedBar(part, {
        class: index === picked ? "series picked" : "series",
        colour: layer.place?.colour ?? look.colour,
        ...bar,
        y: top,
        height: y(0) - top,
      }),
    );
    svg.append(
      drawing(
        "rect",
        {
          ...bar,
          y: MARGIN.top,
          height: y(0) - MARGIN.top,
          fill: "transparent",
          cursor: "pointer",
          onclick: () => choose(index),
        },
        title,
      ),
    );
    const label = layer.name.length * 7 < x(1) - x(0) ? layer.name : String(index + 1);
    if (x(1) - x(0) >= 16 || index % 5 === 0)
      svg.append(drawing("text", { x: middle, y: y(0) + 16, "text-anchor": "middle" }, label));
  });
  return svg;
}

function histogramOf(layer, look, width) {
  const height = 240,
    edges = layer.counts.length;
  const reach = Math.max(Math.abs(layer.first), Math.abs(layer.first + edges)) * layer.width || 1;
  const most = Math.max(1, ...layer.counts);
  const x = axis(-reach, reach, MARGIN.left, width - MARGIN.right),
    y = axis(0, most, height - MARGIN.bottom, MARGIN.top);
  const svg = drawing("svg", {
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `histogram of ${layer.name}`,
  });
  svg.append(...frame(width, height, x, y, ticks(-reach, reach, width / 90), ticks(0, most, 4), { x: "weight" }));
  layer.counts.forEach((count, index) => {
    const low = (layer.first + index) * layer.width,
      high = low + layer.width;
    const title = drawing("title", {}, `${whole(count)} weights from ${compact(low)} to ${compact(high)}`);
    const room = Math.max(0.5, x(high) - x(low) - 0.5);
    svg.append(
      drawing("rect", {
        class: "series",
        colour: look.colour,
        x: x(low),
        width: room,
        y: y(count),
        height: y(0) - y(count),
      }),
    );
    svg.append(
      drawing(
        "rect",
        { x: x(low), width: x(high) - x(low), y: MARGIN.top, height: y(0) - MARGIN.top, fill: "transparent" },
        title,
      ),
    );
  });
  for (const mean of [layer.negative, layer.positive]) {
    if (mean !== null)
      svg.append(drawing("line", { class: "mean", x1: x(mean), x2: x(mean), y1: MARGIN.top, y2: y(0) }));
  }
  return svg;
}
