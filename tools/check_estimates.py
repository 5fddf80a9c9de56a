#!/usr/bin/env python3
"""Compares the estimates by which algorithms are chosen with the times in docs/benchmarks/data.

  tools/check_estimates.py [--verbose] build-host/bin/plait-info

For each machine below, over all calls from 1 KB on that were measured there, it prints

  the median of the relative errors, and the part of the calls with an error of at most 25 %
  the time of the algorithm with the least estimate over that of the fastest one, geometric mean
    and worst: how well the estimates would choose without any rules

and with --verbose the same errors for each algorithm, and the median of estimate over time. Exits
with 1 if the median error of one of MACHINES is 25 % or more. plait-info evaluates the formulas for
the described machines, so none of them is needed.
"""
import argparse
import pathlib
import statistics
import sys
from collections import defaultdict

import fit_model

DATA = pathlib.Path(__file__).resolve().parent.parent / "docs/benchmarks/data"
MOST_ERROR = 0.25
LEAST_BYTES = 1 << 10
ON_ONE_GPU = ("--shared",)
ON_TWO_CORES = ("--processors", "2")
# The name, what plait-info must know of it besides what the files say, and the files. The link
# model was fitted to the first two files of 2 H100, the factors to those of "choice".
MACHINES = (
    ("4 H200", (), ("h200-4-all-reduce", "h200-4-collectives")),
    ("4 H100", (), ("h100-4-all-reduce", "h100-4-collectives")),
    ("2 H100", (), ("h100-2-model", "h100-2-reduce-scatter", "h100-2-marked",
                    "h100-2-second-hop")),
    ("2 H100, another run", (), ("h100-2-all-reduce", "h100-2-collectives")),
    *((f"one H200, {ranks} ranks", ON_ONE_GPU, (f"h200-1-{ranks}-ranks-choice",))
      for ranks in (2, 3, 4, 8)),
    *((f"one H200, {ranks} ranks, another run", ON_ONE_GPU, (f"h200-1-{ranks}-ranks",))
      for ranks in (2, 3, 4, 8)),
    *((f"host, {ranks} ranks", ON_TWO_CORES, (f"host-{ranks}-ranks-choice",))
      for ranks in (2, 3, 4, 8)),
    ("host, 2 ranks, another run", ON_TWO_CORES, ("host-2-ranks-uncalibrated",)),
)
# Only printed, because the numbers for the host are those of one machine.
OTHER_MACHINES = tuple((f"another host, {ranks} ranks", ON_TWO_CORES, (f"host-{ranks}-ranks",))
                       for ranks in (2, 4))


def summary(ratios):
    errors = [abs(ratio - 1) for ratio in ratios]
    within = sum(error <= MOST_ERROR for error in errors) / len(errors)
    middle = statistics.median(errors)
    return middle, f"{len(ratios):6} {middle:8.1%} {within:8.0%}"


def check(name, machine, files, options):
    data = fit_model.Data([str(DATA / f"{file}.json") for file in files], options.program, machine)
    estimates = data.estimates(fit_model.terms_of(data.facts))
    by_algorithm = defaultdict(list)
    for call, estimate in zip(data.calls, estimates):
        if call["bytes"] >= LEAST_BYTES:
            by_algorithm[call["collective"], call["algorithm"]].append(estimate / call["time_us"])
    error, text = summary([ratio for ratios in by_algorithm.values() for ratio in ratios])
    losses = data.losses(estimates)
    choice = f"{statistics.geometric_mean(losses):8.3f} {max(losses):6.2f}" if losses else ""
    print(f"{name:38} {text} {choice}")
    if options.verbose:
        for (collective, algorithm), ratios in sorted(by_algorithm.items()):
            print(f"  {collective:15}{algorithm:20}  {summary(ratios)[1]} "
                  f"{statistics.median(ratios):8.2f}")
    return error < MOST_ERROR


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="plait-info")
    parser.add_argument("--verbose", action="store_true", help="print each algorithm")
    options = parser.parse_args()
    print(f"{'estimates against times':38} {'calls':>6} {'median':>8} {'in 25 %':>8} "
          + ("estimate/time" if options.verbose else "choice/fastest"))
    wrong = [machine[0] for machine in MACHINES if not check(*machine, options)]
    for machine in OTHER_MACHINES:
        check(*machine, options)
    if wrong:
        print(f"check_estimates: the median error is {MOST_ERROR:.0%} or more on "
              f"{', '.join(wrong)}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
