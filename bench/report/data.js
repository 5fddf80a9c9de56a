// The runs in the page, and what can be computed from them without a browser.
"use strict";

const isOneSided = name => /^(put|get)( |$)/.test(name);
const isPeer = name => name.startsWith("peer:");
const isDefault = name => /^default\b/.test(name);
const distinct = values => [...new Set(values)];
const mean = values => Math.exp(values.reduce((sum, v) => sum + Math.log(v), 0) / values.length);

/** The files as plait-bench wrote them: objects with `machine` and `results`. */
function unpack(packed) {
  return packed.map(({machine, columns, rows}) => ({
    machine,
    results: rows.map(row => {
      const result = Object.fromEntries(columns.map((column, i) => [column, row[i]]));
      if (result.chosen === null) delete result.chosen;  // only the default has it
      return result;
    }),
  }));
}

/** busbw / algbw, as docs/benchmarks says and bench/results.hpp computes it. */
function busbwFactor(collective, ranks) {
  if (["broadcast", "reduce", "send_recv"].includes(collective)) return 1;
  return (collective === "all_reduce" ? 2 : 1) * (ranks - 1) / ranks;
}

/** The result with the fields that older files lack, and with its machine. */
function complete(raw, machine) {
  const busbw = raw.bytes / (raw.time_us * 1e3) * busbwFactor(raw.collective, raw.ranks);
  return {
    ...raw, raw, machine,
    busbw: raw.busbw ?? (raw.bytes > 0 ? busbw : null),
    op: raw.op ?? null,
    in_place: raw.in_place ?? false,
    offset_bytes: raw.offset_bytes ?? 0,
  };
}

const keyOf = r => [r.name, r.collective, r.type, r.op, r.ranks, r.bytes, r.offset_bytes,
  r.in_place, r.memory, r.timing].join("|");

/** How many processes the ranks share, where they do not have one each. */
const sharedBy = machine => machine.processes < machine.ranks ? machine.processes : null;

/** Joins files of one day and machine into runs. Files with a common result stay apart. */
function runsOf(files) {
  const runs = [];
  for (const file of files) {
    const m = file.machine;
    const home = [m.hostname, m.backend, m.devices?.[0], m.nodes ?? 1, sharedBy(m),
      m.plait_version, m.nccl_version, m.mpi_version, (m.date ?? "").slice(0, 10)].join("|");
    const results = file.results.map(raw => complete(raw, m));
    const keys = results.map(keyOf);
    let run = runs.find(other => other.home === home && !keys.some(key => other.keys.has(key)));
    if (!run) runs.push(run = {home, keys: new Set(), results: [], machines: []});
    keys.forEach(key => run.keys.add(key));
    run.results.push(...results);
    run.machines.push(m);
  }
  runs.forEach((run, i) => {
    run.letter = String.fromCharCode(65 + i % 26);
    run.label = labelOf(run);
  });
  for (const run of runs)
    if (runs.some(other => other !== run && other.label === run.label))
      run.longLabel = `${run.label} ${(run.machines[0].date ?? "").slice(11, 16)}`;
  runs.forEach(run => { run.label = run.longLabel ?? run.label; });
  return runs;
}

function labelOf(run) {
  const m = run.machines[0];
  const ranks = distinct(run.machines.map(machine => machine.ranks)).sort((a, b) => a - b);
  const many = ranks.length > 1 ? `${ranks.slice(0, -1).join(", ")} and ${ranks.at(-1)}` : ranks[0];
  const nodes = ((m.nodes ?? 1) > 1 ? ` on ${m.nodes} nodes` : "")
    + (sharedBy(m) ? ` in ${sharedBy(m) > 1 ? `${sharedBy(m)} processes` : "one process"}` : "");
  return `${m.devices?.[0] ?? m.backend}, ${many} ranks${nodes}, ${(m.date ?? "").slice(0, 10)}`;
}

/** The selectors: a field of a result, its heading, and how a value reads. */
const fields = [
  {key: "collective", title: "collective"},
  {key: "ranks", title: "ranks"},
  {key: "type", title: "type"},
  {key: "op", title: "operation", text: op => op ?? "none"},
  {key: "memory", title: "memory"},
  {key: "in_place", title: "placement", text: yes => yes ? "in place" : "out of place"},
  {key: "timing", title: "timing"},
  {key: "offset_bytes", title: "alignment",
    text: n => n ? `${n} bytes past it` : "aligned"},
];
const textOf = (field, value) => field.text ? field.text(value) : String(value);

/** In symmetric memory all peers are compared, in ordinary memory those with ordinary buffers. */
function fits(result, selection, key) {
  if (key === "memory" && isPeer(result.name))
    return selection.memory === "symmetric" || result.memory === selection.memory;
  return result[key] === selection[key];
}

/** The results of Plait; those of peers if there are no others. */
function ownOf(results) {
  const own = results.filter(r => !isPeer(r.name));
  return own.length ? own : results;
}

/** The values of each field that exist together with the choices before it. Corrects choices. */
function optionsOf(run, selection) {
  let left = run.results;
  return fields.map(({key}) => {
    const values = distinct(ownOf(left).map(r => r[key]));
    if (typeof values[0] === "number") values.sort((a, b) => a - b);
    if (!values.includes(selection[key])) selection[key] = values[0];
    left = left.filter(r => fits(r, selection, key));
    return values;
  });
}

/** The selection for another run: where it has no such results, the nearest that it has. */
function selectionFor(run, selection) {
  const near = {...selection};
  if (!run.results.some(r => r.collective === selection.collective)) return near;
  const apart = r => Math.abs(Math.log(r.ranks / selection.ranks));
  near.ranks = run.results.filter(r => r.collective === selection.collective)
    .reduce((a, b) => apart(b) < apart(a) ? b : a).ranks;
  optionsOf(run, near);
  return near;
}

/** The results of the selection, except that the fields of `free` may be any. */
function chosen(run, selection, free = []) {
  return run.results.filter(r => fields.every(({key}) => free.includes(key)
    || (key === "op" && free.includes("collective") && (r.op === null || selection.op === null))
    || fits(r, selection, key)));
}

/** Names in the order of all legends: the default, Plait's, the peers. */
function inOrder(names) {
  const place = name => isDefault(name) ? 0 : isPeer(name) ? 2 : 1;
  return distinct(names).sort((a, b) => place(a) - place(b) || (a < b ? -1 : 1));
}

const sizesOf = results => distinct(results.map(r => r.bytes)).sort((a, b) => a - b);
const least = results => results.reduce((a, b) => !a || b.time_us < a.time_us ? b : a, undefined);

/** What the results of one cell (size, ranks, collective) say: each a result or undefined. */
function verdict(results) {
  const own = results.filter(r => !isPeer(r.name));
  const calls = own.filter(r => !isOneSided(r.name));
  const named = calls.filter(r => !isDefault(r.name));
  return {
    default: least(own.filter(r => isDefault(r.name))),
    fastest: least(named.length ? named : calls.length ? calls : own),
    peer: least(results.filter(r => isPeer(r.name))),
  };
}

/** The greatest measured bandwidth in GB/s, or null. */
function ceilingOf(machine) {
  const c = machine.ceilings ?? {};
  const values = [c.push_gbs, c.pull_gbs, c.copy_engine_gbs, machine.link_gbs].filter(v => v > 0);
  return values.length ? Math.max(...values) : null;
}

/** The ends of a result's spread, and their names. */
function spreadOf(r) {
  if (r.time_us_p5 != null && r.time_us_p99 != null)
    return {low: r.time_us_p5, high: r.time_us_p99, ends: "p5 to p99",
      of: r.samples ? `${r.samples} ${r.samples_of ?? "samples"}` : ""};
  if (r.time_us_min == null || r.time_us_max == null) return null;
  return {low: r.time_us_min, high: r.time_us_max, ends: "least to greatest",
    of: r.repeats ? `${r.repeats} repeats` : ""};
}

function sizeText(bytes) {
  for (const [power, letter] of [[30, "G"], [20, "M"], [10, "K"]])
    if (bytes >= 2 ** power && bytes % 2 ** power === 0) return bytes / 2 ** power + letter;
  return String(bytes);
}
function number(value) {
  if (value == null) return "–";
  const size = Math.abs(value);
  return value.toFixed(size < 1 ? 3 : size < 10 ? 2 : size < 100 ? 1 : 0);
}
const ratio = value => value == null ? "–" : value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);

/** One or two sentences about wrong results and about peers that are not there. */
function notesOf(run, shown) {
  const notes = [];
  const wrong = run.results.filter(r => r.wrong > 0);
  if (wrong.length)
    notes.push(`${wrong.length === 1 ? "One result" : `${wrong.length} results`} of `
      + `${distinct(wrong.map(r => r.name)).join(", ")} with wrong elements left out.`);
  const unchecked = shown.filter(r => r.wrong == null).length;
  if (unchecked)
    notes.push(`${unchecked === shown.length ? "The" : `${unchecked} of ${shown.length}`} results `
      + "of this selection were not checked.");
  if (!run.results.some(r => isPeer(r.name)))
    notes.push("No peer was measured in this run, so there is no speed-up to show.");
  else if (!shown.some(r => isPeer(r.name)))
    notes.push("No peer was measured for this selection.");
  return notes;
}
