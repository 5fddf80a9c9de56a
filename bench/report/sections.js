// The sections below the charts: tables, the heat map, the spread and the machines.
"use strict";

function drawChoice() {
  const peers = shownRuns().some(run => resultsOf(run).some(r => isPeer(r.name)));
  const rows = shownRuns().flatMap(run => verdicts(run).map(v => {
    const own = v.default && v.fastest && v.fastest !== v.default;
    return [sizeText(v.bytes) + suffix(run),
      v.fastest ? v.fastest.chosen ?? v.fastest.name : "–", number(v.fastest?.time_us),
      v.default?.chosen ?? "–", number(v.default?.time_us),
      own ? percent(v.default.time_us / v.fastest.time_us) : "–",
      ...(peers ? [v.peer ? v.peer.name.slice(5) : "–", number(v.peer?.time_us),
        v.default && v.peer ? ratio(v.peer.time_us / v.default.time_us) : "–"] : [])];
  }));
  byId("choice-hint").textContent = "The cost is the default's time over that of the fastest "
    + "algorithm in the same run, less one. Where both are one algorithm, the rest is noise "
    + "between two measurements.";
  byId("choice").replaceChildren(table(selectionText(), ["bytes", "fastest", "µs",
    "default takes", "µs", "cost", ...(peers ? ["best peer", "µs", "speed-up"] : [])],
  rows, [1, 3, 6]));
}

/** A cell of a heat map: blue above 1, orange below, deeper the further from it. */
function heatCell(value, title) {
  if (value == null) return element("td", {className: "heat", title}, "–");
  const depth = Math.min(1, Math.abs(Math.log(value)) / Math.log(4));
  const cell = element("td", {className: "heat", title}, ratio(value));
  const colour = value >= 1 ? "--better" : "--worse";
  cell.style.background = `rgba(var(${colour}), ${(.06 + .5 * depth).toFixed(3)})`;
  return cell;
}

function drawHeat() {
  const several = key => distinct(state.run.results.map(r => r[key])).length > 1;
  const possible = ["ranks", "collective"].filter(several);
  if (!possible.includes(state.columns)) state.columns = possible[0] ?? "ranks";
  const key = state.columns;
  const controls = [picker("speed-up of", ["default", "fastest"], state.heat,
    which => which === "default" ? "the default" : "the fastest algorithm",
    which => { state.heat = which; drawHeat(); })];
  if (possible.length > 1)
    controls.push(picker("columns", possible, key, text => text,
      columns => { state.columns = columns; drawHeat(); }));
  byId("heat-controls").replaceChildren(...controls);
  const maps = shownRuns().map(run => {
    const results = chosen(run, selectionOf(run), [key]).filter(r => !(r.wrong > 0));
    const columns = distinct(results.map(r => r[key]));
    if (key === "ranks") columns.sort((a, b) => a - b);
    let any = false;
    const rows = sizesOf(results).map(bytes => [sizeText(bytes), ...columns.map(column => {
      const v = verdict(results.filter(r => r.bytes === bytes && r[key] === column));
      const own = v[state.heat];
      if (!own || !v.peer) return heatCell(null, "not measured");
      any = true;
      return heatCell(v.peer.time_us / own.time_us,
        `${own.chosen ?? own.name} ${number(own.time_us)} µs, `
        + `${v.peer.name.slice(5)} ${number(v.peer.time_us)} µs`);
    })]);
    if (!any) return element("p", {}, `No peer was measured${suffix(run)}.`);
    const head = columns.map(column => key === "ranks" ? `${column} ranks` : column);
    return element("div", {className: "wide", tabIndex: 0},
      table(`${run.label}${suffix(run)}`, ["bytes", ...head], rows));
  });
  byId("heat-hint").textContent = `${selectionText(key === "ranks" ? ["ranks"]
    : ["collective", "op"])}. A cell is the time of the best peer over that of Plait: above 1 `
    + "Plait is faster (blue), below 1 the peer (orange).";
  byId("heat").replaceChildren(...maps);
}

function drawRatios() {
  const [a, b] = shownRuns();
  byId("ratios-section").hidden = !b;
  if (!b) return;
  const [one, other] = [resultsOf(a), resultsOf(b)];
  const names = inOrder(one.map(r => r.name)).filter(name => other.some(r => r.name === name));
  const at = (results, name, bytes) =>
    results.find(r => r.name === name && r.bytes === bytes)?.time_us;
  const sizes = sizesOf(one).filter(bytes => other.some(r => r.bytes === bytes));
  byId("ratios-hint").textContent = `${selectionText()}. A cell is the time in ${b.letter} over `
    + `that in ${a.letter}: above 1 ${a.letter} is faster (blue), below 1 ${b.letter} (orange).`;
  byId("ratios").replaceChildren(names.length && sizes.length
    ? table(`${b.letter} (${b.label}) over ${a.letter} (${a.label})`, ["bytes", ...names],
      sizes.map(bytes => [sizeText(bytes), ...names.map(name => {
        const [mine, theirs] = [at(one, name, bytes), at(other, name, bytes)];
        return heatCell(mine && theirs ? theirs / mine : null,
          `${number(theirs)} µs and ${number(mine)} µs`);
      })]))
    : element("p", {}, "The two runs have no common result of this selection."));
}

function drawSpreads() {
  const sizes = sizesOf(shownRuns().flatMap(resultsOf));
  if (!sizes.includes(state.spreadSize))
    state.spreadSize = sizes.find(bytes => bytes >= 65536) ?? sizes.at(-1);
  byId("spread-size").replaceChildren(...sizes.map(bytes => element("option",
    {value: String(bytes), selected: bytes === state.spreadSize}, sizeText(bytes))));
  byId("spread-size").disabled = sizes.length < 2;
  const entries = shownRuns().flatMap(run => resultsOf(run)
    .filter(r => r.bytes === state.spreadSize && spreadOf(r))
    .map(result => ({label: result.name + suffix(run), look: looks.get(result.name), result,
      spread: spreadOf(result)})))
    .sort((a, b) => a.result.time_us - b.result.time_us);
  const ends = distinct(entries.map(({spread}) => spread.of ? `${spread.ends} of ${spread.of}`
    : spread.ends)).slice(0, 3).join(" or ");
  byId("spread-hint").textContent = entries.length
    ? `${selectionText()}. Bars from ${ends}, relative to each `
      + "curve's median, which stands beside its name." : "These files have no spread.";
  byId("spread-box").hidden = !entries.length;
  if (!entries.length) return;
  const row = window.innerWidth < 600 ? 34 : 24;
  byId("spread-box").style.height = `${90 + row * entries.length}px`;
  drawSpread("spread", entries, ends);
  byId("spread").setAttribute("aria-label", `Spread of latencies, ${entries.length} curves at `
    + `${sizeText(state.spreadSize)}. The table below has the numbers.`);
  const columns = [["median", "time_us"], ["mean", "time_us_mean"], ["std. dev.", "time_us_stddev"],
    ["min", "time_us_min"], ["p5", "time_us_p5"], ["p95", "time_us_p95"], ["p99", "time_us_p99"],
    ["max", "time_us_max"]].filter(([, key]) => entries.some(({result}) => result[key] != null));
  byId("spread-table").replaceChildren(table(`µs at ${sizeText(state.spreadSize)}`,
    ["", ...columns.map(([title]) => title)],
    entries.map(({label, result}) => [label, ...columns.map(([, key]) => number(result[key]))]),
    [0]));
}

function drawMachines() {
  const value = text => text == null || text === "" ? "none" : String(text);
  const tables = shownRuns().map(run => {
    const m = run.machines[0];
    const devices = distinct(m.devices ?? []).join(", ");
    const rows = [["host", value(m.hostname)], ["devices", `${devices} (${m.backend})`],
      ["nodes", value(m.nodes ?? 1)],
      ...(sharedBy(m) ? [["processes", value(m.processes)]] : []),
      ["Plait", value(m.plait_version)], ["NCCL", value(m.nccl_version)],
      ["MPI", value(m.mpi_version)]];
    for (const machine of run.machines) {
      const c = machine.ceilings ?? {};
      rows.push([`${machine.ranks} ranks`, value(machine.date)],
        ["command line", element("td", {}, element("code", {}, value(machine.command_line)))],
        ["ceiling", ceilingOf(machine) === null ? "none" : `${number(ceilingOf(machine))} GB/s: `
          + (machine.ceilings_measured ?? machine.link_measured ?? "")]);
      const more = [["push", c.push_gbs, "GB/s"], ["pull", c.pull_gbs, "GB/s"],
        ["copy engine", c.copy_engine_gbs, "GB/s"], ["flag", c.flag_us, "µs"],
        ["signal", c.signal_us, "µs"], ["barrier", c.barrier_us, "µs"],
        ["launch", c.launch_us, "µs"], ["event query", c.query_us, "µs"]].filter(([, v]) => v != null)
        .map(([title, v, unit]) => `${title} ${number(v)} ${unit}`);
      if (more.length) rows.push(["measured", more.join(", ")]);
    }
    return element("div", {}, table(run.label + suffix(run), null, rows));
  });
  byId("machines").replaceChildren(...tables);
}
