// Draws the charts of a page of runs from the element "data", and makes them answer pointer and keyboard.
"use strict";
(() => {
const element = (id) => document.getElementById(id);
const data = JSON.parse(element("data").textContent);
const toolbar = element("toolbar");
const spoken = element("spoken");
let isPrinting = false;  // on paper, which is light
const style = (name) => getComputedStyle(isPrinting ? element("paper") : document.documentElement).getPropertyValue(name).trim();
const several = data.runs.length > 1;
const charts = [];
let zoom = null;  // shown range of the common axis; null: all

// ---- numbers as text
const suffixes = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"]];
function short(value) {
  const size = Math.abs(value);
  for (const [unit, suffix] of suffixes)
    if (size >= unit) return String(+(value / unit).toPrecision(3)) + suffix;
  if (size !== 0 && size < 1e-2) return value.toExponential(3).replace(/\.?0+e-/, "e−").replace("e-", "e−");
  return String(+value.toPrecision(4));
}
function shown(value, unit) {
  if (value === null || value === undefined) return "–";
  if (Number.isNaN(value)) return "not finite";
  if (unit === "bytes") return bytes(value);
  return unit === "share" ? String(+(100 * value).toPrecision(4)) + " %" : short(value);
}
function bytes(value) {
  const power = value < 1 ? 0 : Math.min(4, Math.floor(Math.log2(value) / 10));
  return String(+(value / 1024 ** power).toPrecision(4)) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][power];
}
const axisName = () => new FormData(toolbar).get("axis");
const axisText = (x) => axisName() === "hours" ? short(x) + " h"
  : axisName() === "tokens" ? short(x) + " tokens" : "batch " + Math.round(x).toLocaleString("en");

// ---- series
// The value of a scale at a batch, between the batches for which it is known.
function scaled(scale, batch) {
  const {x, y} = scale;
  if (x.length === 0) return null;
  let low = 0, high = x.length - 1;
  if (batch <= x[0]) return x[0] > 0 ? y[0] * batch / x[0] : y[0];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (x[middle] <= batch) low = middle; else high = middle;
  }
  if (high === low || x[high] === x[low]) return y[low];
  return y[low] + (y[high] - y[low]) * Math.min(1, (batch - x[low]) / (x[high] - x[low]));
}
function positions(series) {
  const axis = axisName();
  if (axis === "batches") return series.x;
  return series.x.map((batch) => scaled(data.runs[series.run][axis], batch));
}
// A mean whose weights fall exponentially to both sides, over a share of the points.
function smoothed(values, strength) {
  const span = values.length * strength * strength / 1e5;
  if (span < 0.5) return values;
  const keep = Math.exp(-1 / span);
  const oneSided = (input) => {
    let sum = 0, weight = 0;
    return input.map((value) => {
      sum = sum * keep + (value === null ? 0 : value);
      weight = weight * keep + (value === null ? 0 : 1);
      return [sum, weight];
    });
  };
  const before = oneSided(values), after = oneSided([...values].reverse()).reverse();
  return values.map((value, i) => value === null ? null
    : (before[i][0] + after[i][0] - value) / (before[i][1] + after[i][1] - 1));
}
function isShown(series) {
  if (!several) return true;
  return toolbar.querySelector(`input[name=run][value="${series.run}"]`).checked;
}
// Of several runs the colour tells the run, and dashes what it is a curve of.
const dashes = [null, [6, 4], [2, 4], [10, 3, 2, 3]];
const dashOf = (series) => several && series.kind > 0 ? 1 + (series.kind - 1) % 3 : 0;
const colourOf = (series) => style("--c" + (several ? series.run : series.kind) % 10);

// The lines of a chart: every series, and where it is smoothed its own values faintly behind it.
function linesOf(chart) {
  const strength = Number(toolbar.elements.smoothing.value);
  const lines = [];
  for (const series of chart.series) {
    if (!isShown(series)) continue;
    const x = positions(series);
    const few = series.x.length < 60;
    const smooth = chart.noisy && !few && strength > 0;
    const colour = colourOf(series);
    const measured = lines.length;  // the line of the values themselves
    if (smooth) lines.push({x, y: series.y, series, colour, faint: true});
    lines.push({x, y: smooth ? smoothed(series.y, strength) : series.y, series, colour, few, measured,
                dash: dashOf(series)});
  }
  return lines;
}
// Rows of x and of the value of each line; NaN ends a line, null is passed over.
function rowsOf(lines) {
  const rows = new Map();
  lines.forEach((line, k) => line.x.forEach((x, i) => {
    if (x === null) return;
    let row = rows.get(x);
    if (!row) rows.set(x, row = [x, ...lines.map(() => null)]);
    row[k + 1] = line.y[i] === null ? NaN : line.y[i];
  }));
  return [...rows.values()].sort((a, b) => a[0] - b[0]);
}

// ---- drawing
function faint(colour) {
  const probe = document.createElement("canvas").getContext("2d");
  probe.fillStyle = colour;
  const hex = probe.fillStyle;
  return `rgba(${parseInt(hex.slice(1, 3), 16)},${parseInt(hex.slice(3, 5), 16)},${parseInt(hex.slice(5, 7), 16)},0.28)`;
}
function optionsOf(chart) {
  const lines = linesOf(chart);
  chart.lines = lines;
  chart.rows = rowsOf(lines);
  const series = {};
  lines.forEach((line, k) => {
    series["s" + k] = {
      strokeWidth: line.faint ? 1 : 2, drawPoints: line.few && line.x.length < 60, pointSize: 2.5,
      highlightCircleSize: line.faint || line.measured === k ? 4 : 0,
      strokePattern: dashes[line.faint ? 0 : line.dash],
    };
  });
  return {
    file: chart.rows.length ? chart.rows : [[0, null]],
    labels: ["x", ...lines.map((line, k) => "s" + k)].concat(lines.length ? [] : ["none"]),
    colors: lines.length ? lines.map((line) => line.faint ? faint(line.colour) : line.colour) : ["#888"],
    series, logscale: chart.id === "loss" && toolbar.elements.logarithm.checked,
    dateWindow: zoom, connectSeparatedPoints: true, legend: "never",
    gridLineColor: style("--grid"), axisLineColor: style("--line"),
    axes: {
      x: {axisLabelFormatter: (x) => short(x), valueFormatter: (x) => String(x), drawGrid: false},
      y: {axisLabelFormatter: (y) => shown(y, chart.unit), axisLabelWidth: 62, labelsKMG2: chart.unit === "bytes"},
    },
  };
}
function fillLegend(chart, row) {
  const list = element("legend-" + chart.id);
  list.replaceChildren();
  if (row !== undefined) {
    const item = document.createElement("li");
    item.append(axisText(chart.rows[row][0]));
    list.append(item);
  }
  const parts = [];
  chart.lines.forEach((line, k) => {
    if (line.faint) return;
    const item = document.createElement("li");
    const mark = document.createElement("span");
    mark.className = "mark c" + (several ? line.series.run : line.series.kind) % 10 + (line.dash ? " dash dash" + line.dash : "");
    item.append(mark, line.series.name);
    if (row !== undefined) {
      const value = document.createElement("output");
      value.textContent = valueText(chart, row, line.measured + 1);
      item.append(value);
      parts.push(line.series.name + " " + value.textContent);
    }
    list.append(item);
  });
  return parts.join(", ");
}
// The last value that was measured up to a row, and where, unless that is the row's own place.
function valueText(chart, row, column) {
  for (let i = row; i >= 0; --i) {
    const value = chart.rows[i][column];
    if (value !== null)
      return shown(value, chart.unit) + (i === row ? "" : ` (${axisText(chart.rows[i][0])})`);
  }
  return "–";
}
function rowAt(chart, x) {
  let low = 0, high = chart.rows.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (chart.rows[middle][0] <= x) low = middle; else high = middle;
  }
  return high >= 0 && Math.abs(chart.rows[high][0] - x) < Math.abs(chart.rows[low][0] - x) ? high : low;
}
let isSelecting = false;  // what one chart selects, the others follow
function select(chosen, x) {
  if (isSelecting) return;
  isSelecting = true;
  for (const chart of charts) {
    if (!chart.rows.length) continue;
    const row = rowAt(chart, x);
    if (chart !== chosen) chart.graph.setSelection(row);
    fillLegend(chart, row);
  }
  isSelecting = false;
}
function deselect() {
  for (const chart of charts) {
    chart.graph.clearSelection();
    fillLegend(chart);
  }
}
function zoomTo(range) {
  zoom = range;
  for (const chart of charts) chart.graph.updateOptions({dateWindow: range});
  remember();
}
function redraw() {
  for (const chart of charts) {
    chart.graph.updateOptions(optionsOf(chart));
    fillLegend(chart);
  }
}
function draw(chart) {
  const place = element("chart-" + chart.id);
  const options = optionsOf(chart);
  const rows = options.file;
  delete options.file;
  chart.graph = new Dygraph(place, rows, Object.assign(options, {
    highlightCallback: (event, x) => select(chart, x),
    unhighlightCallback: () => { if (!isSelecting) deselect(); },
    zoomCallback: (low, high) => zoomTo(chart.graph.isZoomed("x") ? [low, high] : null),
    rightGap: 12, xRangePad: 4, includeZero: chart.unit !== "plain" && !["accuracy", "ranks"].includes(chart.id),
    animatedZooms: false,
  }));
  charts.push(chart);
  fillLegend(chart);
  place.tabIndex = 0;
  place.setAttribute("role", "application");
  place.setAttribute("aria-roledescription", "chart");
  place.setAttribute("aria-label", `${chart.title}: ${chart.series.map((series) => series.name).join(", ")}. ` +
    "Arrow keys walk along the values, plus and minus zoom, 0 shows all; a table follows.");
  place.addEventListener("keydown", (event) => press(chart, event));
  place.addEventListener("blur", deselect);
}

// ---- keyboard
function press(chart, event) {
  if (event.ctrlKey || event.metaKey || event.altKey || !chart.rows.length) return;
  const [low, high] = chart.graph.xAxisRange();
  const selected = chart.graph.getSelection();
  const first = rowAt(chart, low), last = rowAt(chart, high);
  const row = selected < 0 ? first : selected;
  const stride = event.shiftKey ? Math.max(1, Math.round((last - first) / 10)) : 1;
  const zoomBy = (factor) => {
    const centre = selected < 0 ? (low + high) / 2 : chart.rows[row][0];
    const [start, end] = chart.graph.xAxisExtremes();
    const range = [Math.max(start, centre - (centre - low) * factor), Math.min(end, centre + (high - centre) * factor)];
    zoomTo(range[0] <= start && range[1] >= end ? null : range);
  };
  const go = (target) => {
    const next = Math.min(last, Math.max(first, target));
    chart.graph.setSelection(next);
    select(chart, chart.rows[next][0]);
    spoken.textContent = axisText(chart.rows[next][0]) + ": " + fillLegend(chart, next);
  };
  const actions = {
    ArrowLeft: () => go(row - stride), ArrowRight: () => go(selected < 0 ? first : row + stride),
    Home: () => go(first), End: () => go(last),
    "+": () => zoomBy(0.5), "=": () => zoomBy(0.5), "-": () => zoomBy(2), "0": () => zoomTo(null),
    Escape: deselect,
  };
  const action = actions[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}

// ---- tables that are searched, and metrics that become charts
const searchFields = [...document.querySelectorAll("input[type=search]")];
function search(field) {
  const words = field.value.toLowerCase().split(/\s+/);
  let count = 0;
  for (const row of element(field.dataset.table).tBodies[0].rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
    if (!row.hidden) ++count;
  }
  field.nextElementSibling.textContent = field.value.trim() ? count + " found" : "";
}
const metrics = new Map((data.metrics ?? []).map((metric) => [metric.title, metric]));
const shownMetrics = new Map();  // figures by name
const metricButtons = new Map();
function toggleMetric(name) {
  const shownFigure = shownMetrics.get(name);
  metricButtons.get(name).setAttribute("aria-pressed", String(!shownFigure));
  if (shownFigure) {
    const position = charts.findIndex((chart) => chart.title === name && chart.figure === shownFigure);
    if (position >= 0) charts.splice(position, 1)[0].graph.destroy();
    shownFigure.remove();
    shownMetrics.delete(name);
    return;
  }
  const metric = metrics.get(name);
  const figure = document.createElement("figure");
  const caption = document.createElement("figcaption");
  const title = document.createElement("b");
  title.textContent = name;
  caption.append(title);
  const legend = document.createElement("ul");
  legend.className = "legend";
  legend.id = "legend-" + metric.id;
  const place = document.createElement("div");
  place.className = "chart";
  place.id = "chart-" + metric.id;
  figure.append(caption, legend, place);
  element("chosen-metrics").append(figure);
  shownMetrics.set(name, figure);
  draw(Object.assign({}, metric, {figure}));
}
for (const row of element("all-metrics")?.tBodies[0].rows ?? []) {
  const name = row.cells[0].textContent;
  if (!metrics.has(name)) continue;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = name;
  button.setAttribute("aria-pressed", "false");
  button.addEventListener("click", () => { toggleMetric(name); remember(); });
  row.cells[0].replaceChildren(button);
  metricButtons.set(name, button);
}

// ---- what is chosen outlives a reload, as of the page of a run that still trains
const openable = [...document.querySelectorAll("details")];
function remember() {
  const chosen = [...toolbar.elements].map((input) => [input.name, input.value, input.checked]);
  const open = openable.map((details) => details.open);
  const searches = searchFields.map((field) => field.value);
  const metrics = [...shownMetrics.keys()];
  try { sessionStorage.setItem("view", JSON.stringify({zoom, chosen, open, searches, metrics})); } catch { /* no storage here */ }
}
function recall() {
  try {
    const view = JSON.parse(sessionStorage.getItem("view"));
    if (!view) return;
    zoom = view.zoom;
    if (view.open.length === openable.length) openable.forEach((details, i) => { details.open = view.open[i]; });
    for (const [name, value, checked] of view.chosen)
      for (const input of toolbar.elements) {
        if (input.name !== name || !name) continue;
        if (input.type === "range") input.value = value;
        else if (input.value === value) input.checked = checked;
      }
    searchFields.forEach((field, i) => { field.value = view.searches[i] ?? ""; });
    view.metrics.filter((name) => metrics.has(name)).forEach(toggleMetric);
  } catch { /* no storage here */ }
}

// ---- set-up: the page is painted before its charts are drawn, and answers while they are
toolbar.hidden = false;
if (location.protocol === "http:") recall();
for (const axis of ["tokens", "hours"])
  if (data.runs.some((run) => run[axis].x.length === 0))
    toolbar.querySelector(`input[value=${axis}]`).disabled = true;
for (const field of searchFields) {
  field.parentElement.hidden = false;
  field.addEventListener("input", () => { search(field); remember(); });
  search(field);
}
toolbar.addEventListener("submit", (event) => event.preventDefault());
toolbar.addEventListener("input", (event) => {
  if (event.target.name === "axis") zoom = null;
  redraw();
  remember();
});
addEventListener("toggle", remember, true);
element("whole").addEventListener("click", () => zoomTo(null));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
for (const [event, printing] of [["beforeprint", true], ["afterprint", false]])
  addEventListener(event, () => { isPrinting = printing; redraw(); });
const waiting = [...data.charts];
function next() {
  const begin = performance.now();
  while (waiting.length && performance.now() - begin < 25) draw(waiting.shift());
  if (waiting.length) setTimeout(next);
  else document.documentElement.dataset.drawn = String(charts.length);
}
requestAnimationFrame(() => setTimeout(next));
})();
