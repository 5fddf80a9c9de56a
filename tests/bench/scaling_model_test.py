#!/usr/bin/env python3
"""scaling_model_test.py PLAIT_INFO SCALING_MODEL: times that are exactly the estimates of a machine
with other numbers are predicted well, times that know no network are not. And what
plait-info --estimates refuses."""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

info, scaling_model = sys.argv[1:]
FACTS = {"launch_us": 40, "signal_us": 3, "latency_us": 90, "message_us": 12, "bandwidth": 43,
         "link_bandwidth": 16e3, "push_bandwidth": 4.5e3, "hop_us": 1, "copy_us": 1,
         "packet_bandwidth": 1e3, "copy_bandwidth": 1e3}
SHAPES = ((2, 2), (4, 2))


def estimates(folder, calls, **changes):
    file = folder / "calls.json"
    file.write_text(json.dumps({"facts": FACTS, "scratch_bytes": 64 << 20, "gpus": False,
                                "calls": calls, **changes}))
    return subprocess.run([info, "--estimates", str(file)], capture_output=True, text=True)


def results(folder, nodes, ranks_per_node, change=lambda time: time):
    calls = [{"collective": "all_reduce", "bytes": 8 << (3 * i), "nodes": nodes,
              "ranks_per_node": ranks_per_node} for i in range(7)]
    run = estimates(folder, calls)
    assert run.returncode == 0, run
    rows = [{"name": name, "collective": "all_reduce", "bytes": call["bytes"],
             "time_us": change(time)}
            for call, row in zip(calls, json.loads(run.stdout)) for name, time in row.items()]
    assert {row["name"] for row in rows} >= {"rails", "leaders", "ring", "tree", "stream"}, rows
    # A peer's time is passed over.
    rows.append({**rows[0], "name": "peer:mpi", "time_us": 1e-3})
    file = folder / f"{nodes}x{ranks_per_node}.json"
    file.write_text(json.dumps({"machine": {"nodes": nodes, "ranks": nodes * ranks_per_node},
                                "results": rows}))
    return str(file)


def check(files):
    return subprocess.run([scaling_model, "check", info, "--rate", "400mbit", *files],
                          capture_output=True, text=True)


def main(folder):
    run = check([results(folder, *shape) for shape in SHAPES])
    assert run.returncode == 0, run
    fitted, predicted = re.search(r"^all +([0-9.]+)% +([0-9.]+)%", run.stdout, re.M).groups()
    assert float(fitted) < 5 and float(predicted) < 10, run.stdout

    counter = iter(range(10 ** 6))
    run = check([results(folder, *shape, lambda _: 10 ** (next(counter) % 5)) for shape in SHAPES])
    assert run.returncode == 1, run

    call = {"collective": "all_reduce", "bytes": 8, "nodes": 2, "ranks_per_node": 2}
    for sentence, run in (
            ('there is no fact "weight"', estimates(folder, [call], facts={"weight": 1})),
            ("is no file of calls", estimates(folder, [{"nodes": 2}]))):
        assert run.returncode == 2 and sentence in run.stderr and not run.stdout, run


with tempfile.TemporaryDirectory() as place:
    main(Path(place))
