// The page: selectors, legend, tables and buttons. Everything is computed anew after each choice.
"use strict";

const byId = id => document.getElementById(id);
const files = unpack(JSON.parse(byId("runs").textContent));
const runs = runsOf(files);
const looks = looksOf(runs.flatMap(run => run.results.map(r => r.name)));

const state = {
  run: runs[0], second: null, selection: {}, hidden: new Set(), highlight: null,
  heat: "default", columns: null, spreadSize: null,
};

/** element("td", {className: "text"}, "words", otherElement) */
function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.filter(child => child != null));
  return made;
}

/** A table. `head` is a list of headings or null, a row a heading and then texts or cells. */
function table(caption, head, rows, textColumns = []) {
  const kind = i => textColumns.includes(i) ? "text" : "";
  return element("table", {}, element("caption", {}, caption),
    head && element("thead", {}, element("tr", {}, ...head.map((text, i) =>
      element("th", {scope: "col", className: kind(i)}, text)))),
    element("tbody", {}, ...rows.map(row => element("tr", {}, ...row.map((cell, i) =>
      i === 0 ? element("th", {scope: "row", className: kind(0)}, cell)
        : cell instanceof Node ? cell : element("td", {className: kind(i)}, cell))))));
}

/** A select with one option per value; calls `choose` with the value. */
function picker(title, values, value, text, choose, className = "") {
  const select = element("select", {name: title, disabled: values.length < 2},
    ...values.map((each, i) => element("option", {value: String(i), selected: each === value},
      text(each))));
  select.addEventListener("change", () => choose(values[Number(select.value)]));
  return element("label", {className}, title, " ", select);
}

// --- what is selected ----------------------------------------------------------------------------

const shownRuns = () => [state.run, state.second].filter(Boolean);
const selectionOf = run => run === state.run ? state.selection
  : selectionFor(run, state.selection);
const resultsOf = run => chosen(run, selectionOf(run)).filter(r => !(r.wrong > 0));
const suffix = run => state.second ? ` (${run.letter})` : "";
const selectionText = (without = []) => fields.filter(({key}) => !without.includes(key))
  .map(field => field.key === "ranks" ? `${state.selection.ranks} ranks`
    : field.key === "memory" ? `${state.selection.memory} memory`
      : textOf(field, state.selection[field.key]))
  .filter(text => text !== "none" && text !== "aligned").join(", ");

function drawSelectors() {
  const focused = document.activeElement?.name;
  const form = byId("selectors");
  const named = run => runs.length > 1 ? `${run.letter}: ${run.label}` : run.label;
  const parts = [];
  if (runs.length > 1) {
    parts.push(picker("run", runs, state.run, named, run => {
      state.run = run;
      if (state.second === run) state.second = null;
      update();
    }, "run"));
    parts.push(picker("compare with", [null, ...runs.filter(run => run !== state.run)],
      state.second, run => run ? named(run) : "no other run",
      run => { state.second = run; update(); }, "run"));
  }
  const options = optionsOf(state.run, state.selection);
  fields.forEach((field, i) => {
    if (distinct(runs.flatMap(run => ownOf(run.results).map(r => r[field.key]))).length < 2) return;
    parts.push(picker(field.title, options[i], state.selection[field.key],
      value => textOf(field, value),
      value => { state.selection[field.key] = value; update(); }));
  });
  form.replaceChildren(...parts);
  form.hidden = parts.length === 0;
  if (focused) form.elements[focused]?.focus();
}

// --- the sections --------------------------------------------------------------------------------

/** For each size of a run's selection its verdict. */
function verdicts(run) {
  const results = resultsOf(run);
  return sizesOf(results)
    .map(bytes => ({bytes, ...verdict(results.filter(r => r.bytes === bytes))}));
}

function drawHead() {
  byId("subtitle").textContent = `${state.run.label}: ${selectionText()}`
    + (state.second ? `; beside ${state.second.label}` : "");
  const notes = shownRuns().flatMap(run => notesOf(run, chosen(run, selectionOf(run)))
    .map(note => state.second ? `${run.letter}: ${note}` : note));
  if (state.second) {
    const {letter} = state.second, theirs = selectionOf(state.second);
    const others = fields.filter(({key}) => theirs[key] !== state.selection[key])
      .map(field => `${field.title} ${textOf(field, theirs[field.key])}`);
    if (!resultsOf(state.second).length) notes.push(`${letter} has no results of this selection.`);
    else if (others.length)
      notes.push(`${letter} lacks this selection, so it is shown with ${others.join(", ")}.`);
  }
  byId("notes").textContent = notes.join(" ");
  byId("notes").hidden = notes.length === 0;
}

function drawSummary() {
  const all = verdicts(state.run);
  const tiles = [];
  const tile = (title, value, more) =>
    tiles.push(element("div", {}, element("dt", {}, title),
      element("dd", {}, element("b", {}, value), element("span", {}, more))));
  const beside = all.filter(v => v.default && v.peer)
    .map(v => ({...v, times: v.peer.time_us / v.default.time_us}));
  if (beside.length) {
    const best = beside.reduce((a, b) => b.times > a.times ? b : a);
    const worst = beside.reduce((a, b) => b.times < a.times ? b : a);
    tile("default against the best peer", `${ratio(mean(beside.map(v => v.times)))} times as fast`,
      beside.length === 1 ? `at ${sizeText(best.bytes)}`
        : `geometric mean; ${ratio(worst.times)} at ${sizeText(worst.bytes)} to `
          + `${ratio(best.times)} at ${sizeText(best.bytes)}`);
  }
  const own = all.flatMap(v => [v.default, v.fastest]).filter(Boolean);
  const widest = own.filter(r => r.busbw > 0).reduce((a, b) => !a || b.busbw > a.busbw ? b : a,
    undefined);
  if (widest) {
    const ceiling = ceilingOf(widest.machine);
    tile("greatest busbw", `${number(widest.busbw)} GB/s`,
      `${widest.chosen ?? widest.name} at ${sizeText(widest.bytes)}`
      + (ceiling ? `, ${number(100 * widest.busbw / ceiling)} % of the ceiling` : ""));
  }
  const quickest = least(own);
  if (quickest)
    tile("least latency", `${number(quickest.time_us)} µs`,
      `${quickest.chosen ?? quickest.name} at ${sizeText(quickest.bytes)}`);
  const priced = all.filter(v => v.default && v.fastest && v.fastest !== v.default);
  if (priced.length) {
    const costs = priced.map(v => v.default.time_us / v.fastest.time_us);
    const worst = costs.indexOf(Math.max(...costs));
    tile("cost of the default's choice", percent(mean(costs)), "over the fastest"
      + (costs.length === 1 ? "" : `, geometric mean; at most ${percent(costs[worst])}`)
      + ` at ${sizeText(priced[worst].bytes)}`);
  }
  byId("summary").replaceChildren(...tiles);
}

function percent(times) {
  const text = Math.abs(100 * (times - 1)).toFixed(1);
  return `${text === "0.0" ? "" : times > 1 ? "+" : "−"}${text} %`;
}

/** Names that are drawn strongly: the default, the peers, and each that is fastest at some size. */
function strongNames() {
  const names = shownRuns().flatMap(run => resultsOf(run).map(r => r.name));
  const fastest = shownRuns().flatMap(run => verdicts(run).map(v => v.fastest?.name));
  return new Set(names.filter(name => isDefault(name) || isPeer(name) || fastest.includes(name)));
}

function curvesOf() {
  const strong = strongNames();
  return shownRuns().flatMap((run, i) => {
    const results = resultsOf(run);
    return inOrder(results.map(r => r.name)).map(name => ({
      name, label: name + suffix(run), look: looks.get(name), second: i === 1,
      strong: strong.has(name) || state.highlight === name, hidden: state.hidden.has(name),
      dimmed: state.highlight !== null && state.highlight !== name,
      raised: state.highlight === name,
      points: results.filter(r => r.name === name).sort((a, b) => a.bytes - b.bytes),
    }));
  });
}

function drawCharts() {
  const curves = curvesOf();
  const moves = curves.some(curve => curve.points.some(r => r.bytes > 0));
  byId("curves").hidden = !moves;
  if (!moves) return;
  const ceilings = distinct(shownRuns().map(run => {
    const gbs = resultsOf(run).map(r => ceilingOf(r.machine)).find(v => v !== null);
    return gbs && {label: `measured ceiling${suffix(run)}: ${number(gbs)} GB/s`, gbs};
  })).filter(Boolean);
  drawCurves("busbw", "busbw", curves, ceilings,
    {linear: byId("linear").checked, onHover: highlight});
  drawCurves("latency", "time_us", curves, [], {linear: false, onHover: highlight});
  byId("curves-hint").textContent = (ceilings.length
    ? `The dashed grey line is the ${ceilings.map(c => c.label).join(", ")}. ` : "")
    + (curves.every(curve => curve.strong) ? "" : "Curves that are fastest nowhere are drawn thin.")
    + (state.second ? ` ${state.second.letter} has dotted lines and hollow marks.` : "");
  for (const [id, what] of [["busbw", "Bus bandwidth"], ["latency", "Latency"]])
    byId(id).setAttribute("aria-label", `${what} over the size of the message, `
      + `${curves.length} curves: ${selectionText()}. The table below has the numbers.`);
  for (const [id, value, title] of [["busbw", "busbw", "busbw in GB/s"],
    ["latency", "time_us", "latency in µs"]])
    byId(`${id}-table`).replaceChildren(table(`${title}: ${selectionText()}`,
      ["bytes", ...curves.map(curve => curve.label)],
      sizesOf(curves.flatMap(curve => curve.points)).map(bytes => [sizeText(bytes),
        ...curves.map(curve => number(curve.points.find(r => r.bytes === bytes)?.[value]))])));
}

function drawLegend() {
  const names = inOrder(shownRuns().flatMap(run => resultsOf(run).map(r => r.name)));
  const focused = document.activeElement?.dataset.name;
  byId("legend").replaceChildren(...names.map(name => {
    const button = element("button", {type: "button"}, swatch(looks.get(name)), name);
    button.dataset.name = name;
    button.setAttribute("aria-pressed", String(!state.hidden.has(name)));
    button.addEventListener("click", () => {
      if (!state.hidden.delete(name)) state.hidden.add(name);
      button.setAttribute("aria-pressed", String(!state.hidden.has(name)));
      restyle();
    });
    for (const [event, which] of [["mouseenter", name], ["focus", name], ["mouseleave", null],
      ["blur", null]])
      button.addEventListener(event, () => highlight(which));
    return element("li", {}, button);
  }));
  if (focused) byId("legend").querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus();
}

function highlight(name) {
  const wanted = name || null;
  if (state.highlight === wanted) return;
  state.highlight = wanted;
  restyle();
}

/** Shows curves as `state` says, without drawing the charts anew. */
function restyle() {
  const curves = curvesOf();
  for (const chart of [charts.busbw, charts.latency]) {
    if (!chart) continue;
    curves.forEach((curve, i) => {
      Object.assign(chart.data.datasets[i], styled(curve.look, curve));
      chart.setDatasetVisibility(i, !curve.hidden);
    });
    chart.update();
  }
}

// --- buttons -------------------------------------------------------------------------------------

function save(name, type, text) {
  const link = element("a", {download: name, href: URL.createObjectURL(new Blob([text], {type}))});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const jsonText = () => JSON.stringify(files, null, 1) + "\n";

/** The results of the selection, one line each, and first of all their run. */
function csvText() {
  const rows = shownRuns().flatMap(run => chosen(run, selectionOf(run))
    .map(r => ({run: run.label, ...r.raw})));
  const columns = distinct(rows.flatMap(Object.keys));
  const cell = value => {
    const text = value == null ? "" : String(value);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns.join(","), ...rows.map(row => columns.map(c => cell(row[c])).join(","))]
    .join("\n") + "\n";
}

function theme(wanted) {
  document.documentElement.dataset.theme = wanted;
  byId("theme").textContent = wanted === "dark" ? "Light colours" : "Dark colours";
}

function connect() {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  theme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => { theme(dark.matches ? "dark" : "light"); update(); });
  byId("theme").addEventListener("click", () => {
    theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    update();
  });
  byId("selectors").addEventListener("submit", event => event.preventDefault());
  byId("linear").addEventListener("change", drawCharts);
  byId("spread-size").addEventListener("change", event => {
    state.spreadSize = Number(event.target.value);
    drawSpreads();
  });
  for (const button of document.querySelectorAll("[data-show]"))
    button.addEventListener("click", () => {
      const names = [...looks.keys()], strong = strongNames();
      state.hidden = new Set(button.dataset.show === "all" ? []
        : button.dataset.show === "none" ? names : names.filter(name => !strong.has(name)));
      drawLegend();
      restyle();
    });
  for (const id of ["busbw", "latency"])
    byId(id).addEventListener("mouseleave", () => highlight(null));
  byId("save-json").addEventListener("click",
    () => save("plait-runs.json", "application/json", jsonText()));
  byId("save-csv").addEventListener("click", () => save("plait-shown.csv", "text/csv", csvText()));
}

function update() {
  drawSelectors();
  for (const draw of [drawHead, drawSummary, drawLegend, drawCharts, drawChoice, drawHeat,
    drawRatios, drawSpreads, drawMachines])
    draw();
}

connect();
update();
