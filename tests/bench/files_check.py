#!/usr/bin/env python3
"""files_check.py FILE.json FILE.csv PROCESSES: the files of one run of plait-bench on several ranks
agree with themselves and with each other."""
import csv
import json
import math
import pathlib
import sys


def check_result(result, ceilings):
    if result["collective"] == "barrier":
        assert result["bytes"] == 0
        assert result["algbw"] is result["busbw"] is result["percent_of_ceiling"] is None
    else:
        greatest = max(ceilings[name] for name in ("push_gbs", "pull_gbs", "copy_engine_gbs"))
        wanted = 100 * result["busbw"] / greatest
        assert math.isclose(result["percent_of_ceiling"], wanted, rel_tol=1e-9)
    assert result["samples_of"] == ("calls" if result["timing"] == "latency" else "repeats")
    per_repeat = result["calls"] if result["samples_of"] == "calls" else 1
    assert result["samples"] == result["repeats"] * per_repeat
    ascending = [result[f"time_us_{name}"] for name in ("min", "p5", "p50", "p95", "p99", "max")]
    assert ascending == sorted(ascending)
    assert result["time_us"] == result["time_us_p50"]
    assert ascending[0] <= result["time_us_mean"] <= ascending[-1]
    assert 0 <= result["time_us_stddev"] <= ascending[-1] - ascending[0]


def cell(value):
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def main(json_file, csv_file, processes):
    document = json.loads(pathlib.Path(json_file).read_text(encoding="utf-8"))
    machine, results = document["machine"], document["results"]
    assert results
    assert machine["processes"] == int(processes)
    assert set(machine["ceilings"]) == {"push_gbs", "pull_gbs", "copy_engine_gbs", "flag_us",
                                        "signal_us", "barrier_us", "launch_us", "query_us"}
    assert all(value > 0 for value in machine["ceilings"].values())
    assert machine["ceilings_measured"].startswith("push, pull: ")
    with open(csv_file, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(results)
    for row, result in zip(rows, results):
        check_result(result, machine["ceilings"])
        assert set(row) == {*result, "chosen"}, "other columns than the JSON's"
        for name in ("name", "collective", "ranks", "bytes", "samples", "samples_of"):
            assert row[name] == cell(result[name]), name
        for name in ("time_us", "time_us_mean", "time_us_p99", "percent_of_ceiling"):
            assert (result[name] is None and row[name] == "" or
                    math.isclose(float(row[name]), result[name])), name


if __name__ == "__main__":
    main(*sys.argv[1:])
