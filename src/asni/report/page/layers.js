// One run layer by layer: how much of each was pruned, and the surviving weights of one of them.

function layersView(group) {
  const runs = group.runs.filter((run) => run.layers.length);
  if (!runs.length) return null;
  const first = runs.find((run) => run.sparsity > 0) ?? runs[0];
  const chosen = runChooser("layers-run", group, runs, first, fillLayers);
  const layerChooser = chooser("layer", [], redraw);
  const picked = () => chosen.run().layers[layerChooser.selectedIndex];
  const colour = () => group.stages[chosen.run().stage].colour;
  const bars = element("div", { class: "chart" }),
    legend = element("div", { class: "legend" }),
    about = element("p", { class: "quiet", "aria-live": "polite" });
  const drawBars = fitted(bars, (width) =>
    bars.replaceChildren(barsOf(chosen.run().layers, picked(), colour(), width, pick)),
  );
  const histogram = layerHistogram(picked, colour);

  function fillLayers() {
    const before = layerChooser.value;
    const { layers } = chosen.run();
    layerChooser.replaceChildren(
      ...layers.map(({ name }) => element("option", { value: name, selected: name === before }, name)),
    );
    legend.replaceChildren(...placesLegend(layers));
    redraw();
  }

  /** The same as choosing it by name, so that a reload keeps it too. */
  function pick(layer) {
    layerChooser.value = layer.name;
    layerChooser.dispatchEvent(new Event("change", { bubbles: true }));
  }

  function redraw() {
    about.textContent = describe(picked());
    drawBars();
    histogram.redraw();
  }
  fillLayers();
  const left = pickCard(markedTitle("Pruned weights by layer", runs), labelled("run", chosen.view), bars, legend);
  const title = markedTitle("Surviving weights of a layer", runs);
  const right = pickCard(title, labelled("layer", layerChooser), histogram.place, about);
  return element("div", { class: "pair" }, left, right);
}

function describe(layer) {
  const centroid = (value) => (value === null ? "none" : value.toPrecision(4));
  const far = layer.outside ? ` Outside the chart: ${counted(layer.outside, "weight")}.` : "";
  const pruned = fraction(1 - layer.survivors / layer.weights);
  return (
    `${whole(layer.survivors)} of ${whole(layer.weights)} weights survive (${pruned} pruned). ` +
    `Centroids (dashed): ${centroid(layer.negative)} and ${centroid(layer.positive)}.${far}`
  );
}

/** A bar for each layer, with a mark under the picked one; a click on a layer's column calls `pick`. */
function barsOf(layers, picked, colour, width, pick) {
  const area = areaOf(width);
  const { height } = area;
  const x = axis(0, layers.length, area.left, area.right),
    y = axis(0, 100, area.bottom, area.top);
  const room = x(1) - x(0);
  const columns = layers.flatMap((layer, index) => {
    const middle = x(index + 0.5);
    const label = layer.name.length * 7 < room ? layer.name : String(index + 1);
    const isLabelled = room >= 16 || index % 5 === 0;
    const place = { x: middle, y: y(0) + 19, "text-anchor": "middle", class: layer === picked ? "picked" : null };
    return [
      ...layerBar(layer, colour, { middle, width: 0.82 * room, y }, pick),
      ...(isLabelled ? [drawing("text", place, label)] : []),
      ...(layer === picked ? [drawing("path", { class: "picked", d: `M${middle} ${y(0) + 2}l6 6h-12Z` })] : []),
    ];
  });
  return drawing(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "pruned weights by layer" },
    ...frame(area, x, y, [], ticks(0, 100, 5), { x: "layer (click a bar to select it)" }),
    ...columns,
  );
}

function layerBar(layer, colour, { middle, width, y }, pick) {
  const pruned = 100 * (1 - layer.survivors / layer.weights);
  const part = partOf(layer);
  const name = part ? `${layer.name} (${PARTS[part].name})` : layer.name;
  const column = { x: middle - width / 2, width };
  const title = drawing("title", {}, `${name}: ${percent(pruned)} of ${whole(layer.weights)} pruned`);
  const all = { ...column, y: MARGIN.top, height: y(0) - MARGIN.top };
  return [
    ...placedBar(part, {
      class: "series",
      colour: layer.place?.colour ?? colour,
      ...column,
      y: y(pruned),
      height: y(0) - y(pruned),
    }),
    drawing("rect", { ...all, fill: "transparent", cursor: "pointer", onclick: () => pick(layer) }, title),
  ];
}

/** A histogram of the layer that `picked()` returns, with its two means. */
function layerHistogram(picked, colour) {
  return readableChart("surviving weights of a layer", (width) => {
    const layer = picked();
    const edge = (index) => (layer.first + index) * layer.width;
    const reach = Math.max(Math.abs(edge(0)), Math.abs(edge(layer.counts.length))) || 1;
    const most = Math.max(1, ...layer.counts);
    const area = areaOf(width);
    const x = axis(-reach, reach, area.left, area.right),
      y = axis(0, most, area.bottom, area.top);
    const bins = layer.counts.map((count, index) => {
      const [left, right] = [x(edge(index)), x(edge(index + 1))];
      const size = { width: Math.max(0.5, right - left - 0.5), height: y(0) - y(count) };
      return drawing("rect", { class: "series", colour: colour(), x: left, y: y(count), ...size });
    });
    const means = [layer.negative, layer.positive]
      .filter((mean) => mean !== null)
      .map((mean) => drawing("line", { class: "mean", x1: x(mean), x2: x(mean), y1: MARGIN.top, y2: y(0) }));
    const across = ticks(-reach, reach, width / 90);
    return {
      height: area.height,
      parts: [...frame(area, x, y, across, ticks(0, most, 4), { x: "weight" }), ...bins, ...means],
      stops: {
        count: layer.counts.length,
        resting: layer.counts.indexOf(highest(layer.counts)),
        at: (index) => ({ x: x(edge(index + 0.5)) }),
        values: (index) => [
          element("b", {}, `${compact(edge(index))} to ${compact(edge(index + 1))}`),
          element("div", {}, counted(layer.counts[index], "weight")),
        ],
      },
    };
  });
}
