#!/usr/bin/env python3
"""fit_model_test.py PLAIT_INFO FIT_MODEL: from times that are exactly the estimates of a machine
with other numbers, fit_model.py finds about these numbers, and then no choice is wrong. With
--factors it finds the factors of single algorithms. And what plait-info --costs refuses."""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

info, fit_model = sys.argv[1:]
NAMES = ("oneshot_ll", "twoshot_ll", "recursive_doubling", "twoshot", "ring",
         "stream", "halving_doubling", "copy_engine")
FACTORS = {"ring": {"fixed": 0.5, "bytes": 3}, "twoshot": {"fixed": 2.5, "bytes": 0.2}}
WANTED = {"launch_us": 3, "hop_us": 0.6, "signal_us": 5, "copy_us": 4, "link_bandwidth": 150e3,
          "push_bandwidth": 90e3, "packet_bandwidth": 400e3, "copy_bandwidth": 300e3}


def results(ranks):
    calls = [{"name": name, "collective": "all_reduce", "type": "bf16", "ranks": ranks,
              "bytes": 1024 << i, "in_place": False, "memory": memory, "time_us": 1}
             for name in NAMES for i in range(0, 16, 2) for memory in ("symmetric", "ordinary")]
    return {"machine": {"backend": "cuda", "ranks": ranks}, "results": calls}


def said(*arguments):
    return subprocess.run(arguments, check=True, capture_output=True, text=True).stdout


def refused(sentence, *arguments):
    run = subprocess.run([info, *arguments], capture_output=True, text=True)
    assert run.returncode == 2, run
    assert sentence in run.stderr and run.stderr.count("\n") == 1 and not run.stdout, run


def main(folder):
    files = []
    for ranks in (2, 4, 8):
        file = folder / f"{ranks}.json"
        file.write_text(json.dumps(results(ranks)))
        costs = json.loads(said(info, "--costs", str(file)))
        assert len(costs["results"]) > 100
        for call in costs["results"]:
            call["time_us"] = call["costs"]["constant"] + sum(
                call["costs"][name] * (1 / value if name.endswith("bandwidth") else value)
                for name, value in WANTED.items())
        # The peer's call and one of an algorithm that is no longer there are passed over.
        others = [{**costs["results"][0], "name": name, "time_us": 1e-3}
                  for name in ("peer:nccl", "no_such_algorithm")]
        file.write_text(json.dumps({"machine": {"backend": "cuda", "ranks": ranks},
                                    "results": costs["results"] + others}))
        files.append(str(file))

    table = said(fit_model, info, *files)
    for name, value in WANTED.items():
        fitted = float(re.search(rf"^{name} +\S+ +(\S+)$", table, re.MULTILINE)[1])
        # The times say little of copies here, and less of hops than of bytes.
        apart = 0.05 if name.endswith("bandwidth") else 0.3
        assert name.startswith("copy") or abs(fitted / value - 1) < apart, \
            f"{name}: {fitted}, wanted {value}\n{table}"
    for choice, right in (("in force", False), ("fitted", True)):
        means = re.findall(rf"^{choice} +(\S+) +\S+ +\S+ of ", table, re.MULTILINE)
        assert len(means) == 3 and all((float(mean) < 1.001) == right for mean in means), table

    # Times that differ by factors from the estimates.
    for call in costs["results"]:
        parts = {"fixed": call["costs"]["constant"], "bytes": 0}
        for name, value in costs["facts"].items():
            is_rate = name.endswith("bandwidth")
            parts["bytes" if is_rate else "fixed"] += call["costs"][name] * (
                1 / value if is_rate else value)
        call["time_us"] = sum(FACTORS.get(call["name"], {}).get(part, 1) * parts[part]
                              for part in parts)
    file.write_text(json.dumps({"machine": {"backend": "cuda", "ranks": 8},
                                "results": costs["results"]}))
    table = said(fit_model, "--factors", info, str(file))
    for algorithm in NAMES:
        found = re.search(rf" {algorithm}=([\d.]+),([\d.]+)\s", table)
        for part, value in zip(("fixed", "bytes"), found.groups()):
            wanted = FACTORS.get(algorithm, {}).get(part, 1)
            assert abs(float(value) / wanted - 1) < 0.06, f"{algorithm}: {part} {value}\n{table}"

    # The costs and facts of ranks that take turns are those of ranks that do not, times the turns.
    (folder / "host.json").write_text(json.dumps({
        "machine": {"backend": "host", "ranks": 4},
        "results": [{"name": "ring", "collective": "all_reduce", "type": "f32", "bytes": 1 << 20,
                     "memory": "ordinary", "time_us": 1},
                    {"name": "default", "chosen": "pull", "collective": "all_reduce",
                     "type": "f32", "bytes": 1 << 20, "memory": "ordinary", "time_us": 1}]}))
    alone, turns = (json.loads(said(info, "--costs", str(folder / "host.json"), *more))
                    for more in ((), ("--processors", "2")))
    assert alone["facts"] == turns["facts"]
    assert [call["algorithm"] for call in alone["results"]] == ["ring", "pull"]
    for one, other in zip(alone["results"], turns["results"]):
        assert one["factors"] != other["factors"], other
        for name, part, slower in (("signal_us", "fixed", 2),
                                   ("link_bandwidth", "bytes", 2 ** .85)):
            ratio = (other["costs"][name] / other["factors"][part]
                     / (one["costs"][name] / one["factors"][part]))
            assert abs(ratio / slower - 1) < 1e-6, (name, ratio)

    links = json.loads(said(info, "--costs", files[0]))["facts"]
    shared = json.loads(said(info, "--costs", files[0], "--shared"))["facts"]
    assert links["link_bandwidth"] != shared["link_bandwidth"]

    missing = folder / "missing.json"
    refused(f'can\'t read "{missing}": No such file or directory', "--costs", str(missing))
    (folder / "text.json").write_text("{")
    refused("is no file of results", "--costs", str(folder / "text.json"))
    (folder / "other.json").write_text(json.dumps({"machine": {"ranks": 2}}))
    refused("is no file of results", "--costs", str(folder / "other.json"))
    refused("--shared requires --costs", "--shared")
    refused("--processors requires --costs", "--processors", "2")


with tempfile.TemporaryDirectory() as name:
    main(Path(name))
