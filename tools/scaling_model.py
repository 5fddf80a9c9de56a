#!/usr/bin/env python3
"""A model of collectives on many nodes, of the estimates by which algorithms are chosen.

  tools/scaling_model.py check build-host/bin/plait-info --rate 400mbit RESULTS.json...
  tools/scaling_model.py draw [--check] build-host/bin/plait-info

check: fits the times of the model to results of `plait-bench --timing latency --memory ordinary
--json` from nodes whose network has that rate (tools/nodes.sh --rate), one file for each shape of
nodes and ranks. The fit of the bandwidth begins with the rate less the headers of packets; what
part of that it comes to is printed. Each file is also predicted with the times fitted to the others
alone. Prints the median relative error of both, and exits with 1 if that of the predictions is 25 %
or more.

draw: writes docs/scaling-*.svg, of the machines in MACHINES. With --check it writes nothing, and
exits with 1 if a picture is not what it would draw.

`plait-info --estimates` evaluates the formulas, so they are written once, in the library.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

import descent

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
MOST_ERROR = 0.25
PAYLOAD = 1448 / 1514  # of an Ethernet frame of TCP with time stamps
UNUSED = {"hop_us": 1, "copy_us": 1, "packet_bandwidth": 1e3, "copy_bandwidth": 1e3}
HOST = {"link_bandwidth": 16e3, "push_bandwidth": 4.5e3}  # as in docs/tuning.md
# Before the fit. Ranks and proxies share few cores there, so a signal takes longer than elsewhere.
START = {"launch_us": 10, "signal_us": 5, "latency_us": 30, "message_us": 5}


def estimates(program, facts, calls, scratch, gpus=False):
    """For each call, a map from algorithm to microseconds."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump({"facts": {**UNUSED, **HOST, **facts}, "scratch_bytes": scratch, "gpus": gpus,
                   "calls": calls}, file)
        file.flush()
        return json.loads(subprocess.run([program, "--estimates", file.name], check=True,
                                         capture_output=True).stdout)


# --- check ----------------------------------------------------------------------------------------


def bytes_per_us(rate):
    for suffix, factor in (("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)):
        if rate.endswith(suffix):
            return float(rate[:-len(suffix)]) * factor / 8 / 1e6 * PAYLOAD
    raise SystemExit(f"scaling_model: --rate {rate} is none like 400mbit")


class Measured:
    """The results of one file."""

    def __init__(self, file):
        with open(file, encoding="utf-8") as stream:
            document = json.load(stream)
        machine = document["machine"]
        nodes, ranks = machine["nodes"], machine["ranks"]
        if nodes == 1 or ranks % nodes:
            raise SystemExit(f"scaling_model: {file} is not of several equal nodes")
        self.ranks = ranks
        self.name = f"{nodes} x {ranks // nodes}"
        self.rows = [(row["name"], {"collective": row["collective"], "bytes": row["bytes"],
                                    "nodes": nodes, "ranks_per_node": ranks // nodes},
                      row["time_us"])
                     for row in document["results"]
                     if not row["name"].startswith("peer:") and row["name"] != "default"]


class Model:
    def __init__(self, program, bandwidth, scratch, cores):
        self.program, self.scratch, self.cores = program, scratch, cores
        self.start = {**START, "bandwidth": bandwidth}

    def errors(self, facts, files):
        """A list of (file, algorithm, bytes, measured, estimated)."""
        errors = []
        for file in files:
            turns = max(file.ranks / self.cores, 1)
            here = {name: value * turns if name in START else value
                    for name, value in facts.items()}
            told = estimates(self.program, here, [row[1] for row in file.rows], self.scratch)
            errors += [(file, name, call["bytes"], time, estimate[name])
                       for (name, call, time), estimate in zip(file.rows, told)
                       if name in estimate]
        return errors

    def fit(self, files):
        """Changes one number at a time, by ever smaller factors, while that helps."""
        def badness(facts):
            return statistics.fmean(abs(math.log(estimated / time))
                                    for _, _, _, time, estimated in self.errors(facts, files))
        return descent.improve(self.start, list(self.start), (3, 1.5, 1.2, 1.05), 1e-4, badness)


def relative(errors):
    return [abs(estimated - time) / time for _, _, _, time, estimated in errors]


def check(options):
    files = [Measured(file) for file in options.files]
    rate = bytes_per_us(options.rate)
    model = Model(options.program, rate, options.scratch, options.cores)
    facts = model.fit(files)
    print("fitted to all files:", ", ".join(f"{name} {value:.4g}" for name, value in facts.items()))
    print(f"bandwidth is {facts['bandwidth'] / rate:.0%} of the rate, less headers")
    fitted = model.errors(facts, files)
    predicted = []
    for file in files if len(files) > 1 else []:
        others = [other for other in files if other is not file]
        predicted += model.errors(model.fit(others), [file])
    print(f"{'median relative error':24} {'fitted':>8} {'predicted':>10} {'calls':>6}")
    groups = [("all", lambda row: True)]
    groups += [(file.name, lambda row, file=file: row[0] is file) for file in files]
    groups += [(name, lambda row, name=name: row[1] == name)
               for name in sorted({row[1] for row in fitted})]
    for name, belongs in groups:
        mine = [row for row in fitted if belongs(row)]
        alone = [row for row in predicted if belongs(row)]
        print(f"{name:24} {statistics.median(relative(mine)):8.1%} "
              + (f"{statistics.median(relative(alone)):10.1%}" if alone else f"{'':10}")
              + f" {len(mine):6}")
    if options.verbose:
        for file, name, size, time, estimated in fitted:
            print(f"{file.name:8} {name:18} {size:10} {time:12.1f} {estimated:12.1f} "
                  f"{estimated / time:6.2f}")
    return statistics.median(relative(predicted or fitted)) < MOST_ERROR


# --- draw -----------------------------------------------------------------------------------------

# Where the numbers come from: docs/scaling.md.
MACHINES = {
    "cpus": {
        "title": "All-reduce on CPU nodes: 8 ranks and 25 Gbit/s per node, sockets",
        "gpus": False,
        "facts": {"launch_us": 0.1, "signal_us": 0.26, "link_bandwidth": 16e3,
                  "push_bandwidth": 4.5e3, "latency_us": 30, "message_us": 5,
                  "bandwidth": 25e3 / 8 * PAYLOAD},
    },
    "gpus": {
        "title": "All-reduce on GPU nodes: 8 ranks and 8 x 400 Gbit/s per node",
        "gpus": True,
        "facts": {"launch_us": 1.0, "signal_us": 3.8, "link_bandwidth": 337e3,
                  "push_bandwidth": 361e3, "latency_us": 15, "message_us": 2,
                  "bandwidth": 8 * 50e3},
    },
}
PER_NODE = 8
NODES = sorted({round(12500 ** (i / 24) * 2 ** (1 - i / 24)) for i in range(25)})
SIZES = ((1 << 10, "1 KB"), (1 << 20, "1 MB"), (256 << 20, "256 MB"))
FLOOR = "bandwidth alone"  # 2 (N - 1) / N of the message through each node
COLOURS = {"rails": "#0b5fa5", "leaders": "#c2571a", "rails_oneshot": "#c2a01a",
           "rails_ring": "#d81b60", "rails_tree": "#37474f", "rails_doubling": "#5dade2",
           "leaders_doubling": "#f4a582", "ring": "#2e7d32", "halving_doubling": "#7b1fa2",
           "tree": "#00838f", "stream": "#8d6e63", FLOOR: "#9e9e9e"}
WIDTH, HEIGHT, LEFT, TOP, GAP, BOTTOM = 300, 300, 60, 70, 62, 60


def text(x, y, words, size=11, anchor="middle", extra=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{extra}>'
            f"{words}</text>")


def time_name(power):
    return {0: "1 us", 3: "1 ms", 6: "1 s"}.get(power, "")


def panel(left, heading, curves):
    """Time over ranks, both axes logarithmic."""
    ranks = [node * PER_NODE for node in NODES]
    times = [time for name, curve in curves.items() for _, time in curve if name != FLOOR]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))

    def x(count):
        return left + WIDTH * math.log(count / ranks[0]) / math.log(ranks[-1] / ranks[0])

    def y(time):
        return TOP + HEIGHT * (high - math.log10(time)) / (high - low)
    parts = [text(left + WIDTH / 2, TOP - 10, heading, 12, extra=' font-weight="bold"')]
    for power in range(low, high + 1):
        at = y(10 ** power)
        parts.append(f'<path d="M{left} {at:.1f}h{WIDTH}" stroke="#ddd"/>')
        parts.append(text(left - 6, at + 4, time_name(power) or f"1e{power} us", anchor="end"))
    for count in (16, 100, 1000, 10000, 100000):
        parts.append(f'<path d="M{x(count):.1f} {TOP}v{HEIGHT}" stroke="#ddd"/>')
        parts.append(text(x(count), TOP + HEIGHT + 16, f"{count:,}"))
    parts.append(text(left + WIDTH / 2, TOP + HEIGHT + 34, "ranks"))
    for name, curve in curves.items():
        curve = [(count, time) for count, time in curve if time >= 10 ** low]
        if not curve:
            continue
        dashes = ' stroke-dasharray="5 3"' if name == FLOOR else ""
        path = "L".join(f"{x(count):.1f} {y(time):.1f}" for count, time in curve)
        parts.append(f'<path d="M{path}" fill="none" stroke="{COLOURS[name]}" '
                     f'stroke-width="2"{dashes}/>')
    return parts


def picture(program, machine):
    unlimited = 1 << 50  # memory for channels
    calls = [{"collective": "all_reduce", "bytes": size, "nodes": nodes, "ranks_per_node": PER_NODE}
             for size, _ in SIZES for nodes in NODES]
    told = iter(estimates(program, machine["facts"], calls, unlimited, machine["gpus"]))
    width = LEFT + len(SIZES) * (WIDTH + GAP)
    parts = [text(LEFT, 22, f"A model: {machine['title']}", 14, "start", ' font-weight="bold"')]
    for i, (size, heading) in enumerate(SIZES):
        curves = {name: [] for name in COLOURS}
        for nodes in NODES:
            for name, time in next(told).items():
                if name in curves:
                    curves[name].append((nodes * PER_NODE, time))
            least = 2 * (nodes - 1) / nodes * size / machine["facts"]["bandwidth"]
            curves[FLOOR].append((nodes * PER_NODE, least))
        parts += panel(LEFT + i * (WIDTH + GAP), heading, curves)
    at = LEFT
    for name, colour in COLOURS.items():
        parts.append(f'<path d="M{at} {TOP + HEIGHT + 52}h20" stroke="{colour}" stroke-width="2"/>')
        parts.append(text(at + 25, TOP + HEIGHT + 56, name, anchor="start"))
        at += 38 + 6 * len(name)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} '
            f'{TOP + HEIGHT + BOTTOM + 6}" font-family="sans-serif">\n'
            f'<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n")


def draw(options):
    same = True
    for name, machine in MACHINES.items():
        file = DOCS / f"scaling-{name}.svg"
        drawn = picture(options.program, machine)
        if not options.check:
            file.write_text(drawn, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != drawn:
            print(f"scaling_model: {file.name} is not what tools/scaling_model.py draw would draw")
            same = False
    return same


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    checking = commands.add_parser("check")
    checking.add_argument("program", help="plait-info")
    checking.add_argument("files", nargs="+", metavar="RESULTS.json")
    checking.add_argument("--rate", required=True, help="as for tools/nodes.sh")
    checking.add_argument("--scratch", type=lambda text: int(text) << 20, default=64 << 20,
                          help="PLAIT_SCRATCH_BYTES of the results, in MB (default 64)")
    checking.add_argument("--cores", type=float, default=math.inf,
                          help="of the one machine that all ranks share: times grow with the "
                          "ranks that take turns on a core (default: each rank has one)")
    checking.add_argument("--verbose", action="store_true", help="print each call")
    checking.set_defaults(run=check)
    drawing = commands.add_parser("draw")
    drawing.add_argument("program", help="plait-info")
    drawing.add_argument("--check", action="store_true")
    drawing.set_defaults(run=draw)
    options = parser.parse_args()
    sys.exit(0 if options.run(options) else 1)


if __name__ == "__main__":
    main()
