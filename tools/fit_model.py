#!/usr/bin/env python3
"""Fits the link model that estimates are made of (docs/tuning.md) to measured times.

  tools/fit_model.py [--shared | --processors N] [--factors] build-host/bin/plait-info \
      RESULTS.json...

RESULTS.json are files of `plait-bench --json` from one kind of machine, with `--algorithms all`.
plait-info tells how often the estimate of each call counts each number of the model. The script
looks for the numbers with which the algorithm of the least estimate is closest to the fastest one,
and, where the choice does not matter, the estimates are closest to the times. It prints

  the numbers, in force and fitted, for DeviceFacts (backends/)
  how well the estimates choose, with each: the time of the choice over that of the fastest
  estimate over time for each algorithm, the median of short and of long messages, with the fitted
    numbers: a ratio that is far from 1 says that the algorithm's own formula is wrong

It needs no GPU. --shared: the results are of ranks that share one GPU. --processors: they are of
CPU ranks that took turns on so many processors.

--factors: prints the lines of a section of communicator/selection/builtin.factors instead. The
numbers stay as they are; fitted are, for each algorithm, a factor of its fixed time and one of the
time for the bytes.
"""
import argparse
import json
import math
import statistics
import subprocess
import textwrap
from collections import defaultdict

import descent

SHORT, LONG = 16 << 10, 1 << 20  # bytes: at most, at least
LEAST_WEIGHT = 0.5  # for factors, of a call by an algorithm that is far from the fastest
WEIGHT_OF_ERRORS = 0.5   # against the choice
WEIGHT_OF_CHANGES = 0.01  # a number that the times say little of stays as it is


def terms_of(facts):
    """The factors of the costs: the times, and the reciprocals of the bandwidths."""
    return {name: 1 / value if name.endswith("bandwidth") else value
            for name, value in facts.items()}


def key_of(call):
    return (call["collective"], call["type"], call["bytes"], call["memory"],
            call.get("in_place", False), call.get("offset_bytes", 0))


class Data:
    """Measured calls, and the cells of a choice: calls alike but for their algorithm."""

    def __init__(self, files, program, machine):
        self.calls, self.cells, self.facts = [], [], None
        self.sources = []  # for each cell, its file
        for file in files:
            command = [program, "--costs", file, *machine]
            said = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            self.facts = said["facts"]
            cells = defaultdict(list)
            for call in said["results"]:
                cells[key_of(call)].append(call)
            for cell in cells.values():
                # The choice itself is one of the others once more, if there are others.
                named = [call for call in cell if call["name"] != "default"] or list(cell)
                cell[:] = range(len(self.calls), len(self.calls) + len(named))
                self.calls += named
            several = [cell for cell in cells.values() if len(cell) > 1]
            self.cells += several
            self.sources += [file] * len(several)
        self.times = [call["time_us"] for call in self.calls]
        self.fastest = [min(self.times[i] for i in cell) for cell in self.cells]
        # An algorithm that is far from the fastest need not be estimated well.
        self.weights = [0.0] * len(self.calls)
        for cell, fastest in zip(self.cells, self.fastest):
            for i in cell:
                self.weights[i] = fastest / self.times[i]

    def estimates(self, terms):
        return [call["costs"]["constant"] + sum(call["costs"][name] * terms[name] for name in terms)
                for call in self.calls]

    def losses(self, estimates):
        """For each cell, the time of the call with the least estimate over the least time."""
        def chosen(cell):  # a tie goes to the first name, as in Selector::by_estimate
            return min(cell, key=lambda i: (estimates[i], self.calls[i]["algorithm"]))
        return [self.times[chosen(cell)] / fastest
                for cell, fastest in zip(self.cells, self.fastest)]

    def badness(self, estimates, weight_of_choice):
        choice = 0
        if weight_of_choice:
            choice = weight_of_choice * statistics.fmean(map(math.log, self.losses(estimates)))
        errors = sum(w * abs(math.log(max(e, 1e-3) / t))
                     for w, e, t in zip(self.weights, estimates, self.times))
        return choice + WEIGHT_OF_ERRORS * errors / sum(self.weights)


def fit(data, start):
    """First to the times alone, because the choices change in steps and hold a search up."""
    return improve(data, improve(data, start, start, 0), start, 1)


def improve(data, terms, start, weight_of_choice):
    """Changes one number at a time, by ever smaller factors, while that helps."""
    def badness(terms):
        changes = sum(abs(math.log(terms[name] / start[name])) for name in terms)
        return (data.badness(data.estimates(terms), weight_of_choice)
                + WEIGHT_OF_CHANGES * changes)

    used = [name for name in terms if any(call["costs"][name] for call in data.calls)]
    return descent.improve(terms, used, (3, 2, 1.5, 1.25, 1.1, 1.05, 1.02), 1e-5, badness)


def fit_factors(data):
    """Prints the factors of each algorithm with which the logarithms of estimates and times are
    closest, with more weight where the algorithm is close to the fastest."""
    calls = defaultdict(list)
    terms = terms_of(data.facts)
    for call, weight in zip(data.calls, data.weights):
        costs, factors = call["costs"], call["factors"]
        parts = {"fixed": costs["constant"], "bytes": 0}
        for name, term in terms.items():
            parts["bytes" if name.endswith("bandwidth") else "fixed"] += costs[name] * term
        calls[call["collective"], call["algorithm"]].append(
            ({part: value / factors[part] for part, value in parts.items()}, call["time_us"],
             LEAST_WEIGHT + weight))
    fitted = defaultdict(list)
    for (collective, algorithm), rows in sorted(calls.items()):
        def badness(factors):
            return sum(
                weight * abs(math.log(sum(factors[part] * parts[part] for part in parts) / time))
                for parts, time, weight in rows)
        # From several starts, because the absolute values have local minima.
        starts = [{"fixed": fixed, "bytes": size} for fixed in (0.5, 1, 2) for size in (0.5, 1, 2)]
        best = min((descent.improve(start, list(start), (1.5, 1.2, 1.1, 1.05, 1.02), 1e-6, badness)
                    for start in starts), key=badness)
        fitted[collective].append(f"{algorithm}={best['fixed']:.2f},{best['bytes']:.2f}")
    for collective, rows in fitted.items():
        print(textwrap.fill(f"{collective}: {' '.join(rows)}", 100, subsequent_indent="    "))


def judge(data, estimates, what):
    by_file = defaultdict(list)
    for source, loss in zip(data.sources, data.losses(estimates)):
        by_file[source].append(loss)
    for file, losses in by_file.items():
        print(f"{what:10} {statistics.geometric_mean(losses):8.3f} {max(losses):6.2f} "
              f"{sum(loss > 1.1 for loss in losses):7} of {len(losses):4}  {file}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="plait-info")
    parser.add_argument("files", nargs="+", metavar="RESULTS.json")
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--processors", type=int)
    parser.add_argument("--factors", action="store_true")
    options = parser.parse_args()
    machine = ["--shared"] if options.shared else []
    machine += ["--processors", str(options.processors)] if options.processors else []
    data = Data(options.files, options.program, machine)
    if not data.cells:
        raise SystemExit("fit_model: no call was measured with two algorithms")
    if options.factors:
        fit_factors(data)
        return
    before = terms_of(data.facts)
    after = fit(data, before)

    print(f"{'number':18} {'in force':>10} {'fitted':>10}")
    fitted = terms_of(after)
    for name, value in data.facts.items():
        print(f"{name:18} {value:10.4g} {fitted[name]:10.4g}")

    print(f"\n{'choice':10} {'mean':>8} {'worst':>6} {'above 1.10':>15}")
    judge(data, data.estimates(before), "in force")
    judge(data, data.estimates(after), "fitted")

    ratios = defaultdict(lambda: ([], []))
    for call, estimate in zip(data.calls, data.estimates(after)):
        place = 0 if call["bytes"] <= SHORT else 1 if call["bytes"] >= LONG else None
        if place is not None:
            ratios[call["collective"], call["algorithm"]][place].append(estimate / call["time_us"])
    print(f"\n{'estimate over time':38} {'short':>6} {'long':>6}")
    for (collective, name), groups in sorted(ratios.items()):
        columns = [f"{statistics.median(group):6.2f}" if group else f"{'':6}" for group in groups]
        print(f"{collective:15} {name:22} {' '.join(columns)}")


if __name__ == "__main__":
    main()
