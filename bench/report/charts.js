// The charts, drawn by Chart.js, and the looks of a curve: each name keeps its own in all charts.
"use strict";

const shapes = ["circle", "triangle", "rect", "rectRot", "crossRot", "star"];
const colours = 5;  // --c0 to --c4: no factor of 6, so 30 names differ in colour or shape

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** The looks of each name: of the same files a name always has the same. */
function looksOf(names) {
  const looks = new Map();
  let own = 0, peers = 0;
  for (const name of inOrder(names)) {
    if (isDefault(name)) looks.set(name, {colour: "--own", shape: "circle", width: 3.5, dash: []});
    else if (isPeer(name)) {
      looks.set(name, {colour: "--peer", shape: shapes[peers], width: 2.5,
        dash: [[9, 4], [3, 3], [9, 3, 2, 3], [14, 4]][peers++ % 4]});
    } else {
      looks.set(name, {colour: `--c${own % colours}`, width: 1.6, dash: [],
        shape: shapes[own % shapes.length]});
      ++own;
    }
  }
  return looks;
}

function faded(colour, part) {
  const value = parseInt(colour.slice(1), 16);
  return `rgba(${value >> 16}, ${value >> 8 & 255}, ${value & 255}, ${part})`;
}

/** The styles of a dataset. `second` is for the run that is laid over the first. */
function styled(look, {name, second = false, strong = true, dimmed = false, raised = false}) {
  const colour = dimmed ? faded(css(look.colour), .15)
    : strong ? css(look.colour) : faded(css(look.colour), .75);
  return {
    order: raised ? -1 : isDefault(name) ? 0 : isPeer(name) ? 1 : strong ? 2 : 3,
    borderColor: colour, backgroundColor: colour,
    borderWidth: strong ? look.width + .4 : look.width,
    borderDash: second ? [2, 3] : look.dash, pointStyle: look.shape,
    pointRadius: strong ? 4 : 3, pointHoverRadius: 6, pointBorderColor: colour,
    pointBackgroundColor: second ? css("--surface") : colour, pointBorderWidth: 1.5,
  };
}

/** 1, 2, 5, 10, ... of a logarithmic axis, or powers of ten alone if the axis is long. */
function decades(axis) {
  const {min, max} = axis;
  const steps = max / min > 2e3 ? [1] : [1, 2, 5];
  axis.ticks = [];
  for (let power = Math.floor(Math.log10(min)); power <= Math.ceil(Math.log10(max)); ++power)
    for (const step of steps) {
      const value = Number((step * 10 ** power).toPrecision(3));
      if (value >= min * .999 && value <= max * 1.001) axis.ticks.push({value});
    }
}

const plain = value => value >= 1 ? String(Number(value.toPrecision(6))) : String(value);
const axis = (type, more = {}) => ({
  type, grid: {color: css("--line"), tickColor: css("--line"), borderColor: css("--muted")},
  ...more, ticks: {color: css("--ink"), ...more.ticks},
  title: {display: Boolean(more.heading), text: more.heading, color: css("--muted")},
});

function baseOptions(more) {
  return {
    responsive: true, maintainAspectRatio: false, animation: false, parsing: false,
    interaction: {mode: "nearest", axis: "xy", intersect: false}, ...more,
    plugins: {legend: {display: false}, tooltip: {
      backgroundColor: css("--surface"), titleColor: css("--ink"), bodyColor: css("--ink"),
      borderColor: css("--muted"), borderWidth: 1, usePointStyle: true, padding: 10,
      ...more.tooltip}},
  };
}

/** The lines of a tooltip about a result. */
function facts(r) {
  const lines = [`${number(r.time_us)} µs`];
  const spread = spreadOf(r);
  if (spread)
    lines.push(`${number(spread.low)} to ${number(spread.high)} µs (${spread.ends}`
      + `${spread.of && " of "}${spread.of})`);
  if (r.busbw != null) {
    const ceiling = ceilingOf(r.machine);
    lines.push(`busbw ${number(r.busbw)} GB/s`
      + (ceiling ? `, ${number(100 * r.busbw / ceiling)} % of the ceiling` : ""));
  }
  if (r.wrong > 0) lines.push(`WRONG: ${r.wrong} elements`);
  return lines;
}

const charts = {};
function draw(id, config) {
  charts[id]?.destroy();
  charts[id] = new Chart(document.getElementById(id), config);
}

/** Draws `value` ("busbw" or "time_us") over the size. `curves`: {name, points, look, ...}. */
function drawCurves(id, value, curves, ceilings, {linear, onHover}) {
  const sizes = sizesOf(curves.flatMap(curve => curve.points));
  const narrow = window.innerWidth < 600;
  const room = sizes.length > 1 ? 1 : 2;  // beside a single size
  const datasets = curves.map(curve => ({
    label: curve.label, name: curve.name, hidden: curve.hidden,
    data: curve.points.filter(r => r[value] > 0).map(r => ({x: r.bytes, y: r[value], result: r})),
    ...styled(curve.look, curve),
  }));
  for (const {label, gbs} of ceilings)
    datasets.push({
      label, name: "", data: [{x: sizes[0], y: gbs}, {x: sizes.at(-1), y: gbs}], order: 4,
      borderColor: css("--muted"), backgroundColor: css("--muted"), borderDash: [4, 4],
      borderWidth: 1.5, pointRadius: 0, pointHitRadius: 0, pointStyle: "line",
    });
  draw(id, {
    type: "line", data: {datasets},
    options: baseOptions({
      onHover: (event, items, chart) => onHover(chart.data.datasets[items[0]?.datasetIndex]?.name),
      scales: {
        x: axis("logarithmic", {
          heading: "bytes of the message", min: sizes[0] / room, max: sizes.at(-1) * room,
          afterBuildTicks: scale => { scale.ticks = sizes.map(size => ({value: size})); },
          ticks: {callback: sizeText, maxRotation: narrow ? 90 : 0, autoSkipPadding: 8},
        }),
        y: axis(linear ? "linear" : "logarithmic", {
          heading: value === "busbw" ? "GB/s" : "µs", beginAtZero: linear,
          ...(linear ? {} : {afterBuildTicks: decades}), ticks: {callback: plain},
        }),
      },
      tooltip: {callbacks: {
        title: items => items.map(item => sizeText(item.parsed.x) + "B")[0],
        label: ({dataset, raw}) => {
          if (!raw.result) return `${dataset.label}`;
          const by = raw.result.chosen ? ` (${raw.result.chosen})` : "";
          return [dataset.label + by, ...facts(raw.result)];
        },
      }},
    }),
  });
}

/**
 * Draws a bar from end to end of each result's spread: in percent of its median, or as multiples of
 * it on a logarithmic axis if an end is far away.
 */
function drawSpread(id, entries, label) {
  const narrow = window.innerWidth < 600;
  const names = entries.map(entry => [entry.label, `${number(entry.result.time_us)} µs`])
    .map(lines => narrow ? lines : lines.join("  "));  // a list is two lines
  const times = entries.map(({spread, result}) =>
    [spread.low / result.time_us, spread.high / result.time_us]);
  const far = times.some(([low, high]) => low < 1 / 3 || high > 3);
  const ends = far ? times : times.map(pair => pair.map(value => 100 * (value - 1)));
  draw(id, {
    type: "bar",
    data: {labels: names, datasets: [
      {type: "line", label: "median", showLine: false, order: 0,
        pointRadius: 5, pointHoverRadius: 7, pointStyle: "rectRot", borderColor: css("--ink"),
        backgroundColor: css("--ink"),
        data: entries.map(() => far ? 1 : 0)},
      {label, order: 1, data: ends, barThickness: 12, minBarLength: 2,
        backgroundColor: entries.map(entry => css(entry.look.colour)), borderSkipped: false},
    ]},
    options: baseOptions({
      parsing: true, indexAxis: "y", interaction: {mode: "index", axis: "y", intersect: false},
      scales: {
        x: far ? axis("logarithmic", {heading: "multiples of the median", afterBuildTicks: decades,
          ticks: {callback: plain, maxRotation: 0, autoSkipPadding: 8}})
          : axis("linear", {heading: "percent of the median, less 100",
            ticks: {callback: value => `${value > 0 ? "+" : ""}${value} %`, maxRotation: 0}}),
        y: axis("category", {labels: names, offset: true, ticks: {autoSkip: false}}),
      },
      tooltip: {filter: item => item.datasetIndex === 0, callbacks: {
        label: ({dataIndex}) => facts(entries[dataIndex].result),
      }},
    }),
  });
}

/** A curve's line and mark, for the legend. */
function swatch(look) {
  const canvas = document.createElement("canvas");
  const scale = window.devicePixelRatio || 1;
  [canvas.width, canvas.height] = [32 * scale, 14 * scale];
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.strokeStyle = pen.fillStyle = css(look.colour);
  pen.lineWidth = Math.min(look.width, 3);
  pen.setLineDash(look.dash);
  pen.beginPath();
  pen.moveTo(0, 7);
  pen.lineTo(32, 7);
  pen.stroke();
  pen.setLineDash([]);
  pen.lineWidth = 1.5;
  Chart.helpers.drawPoint(pen, {pointStyle: look.shape, radius: 4.5, borderWidth: 1.5}, 16, 7);
  return canvas;
}
