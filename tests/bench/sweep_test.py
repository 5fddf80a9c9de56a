#!/usr/bin/env python3
"""sweep_test.py SWEEP PLAIT_BENCH: tools/sweep.py makes a file per run, goes on after an
interruption, names runs that fail, and prints what it would do."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

SWEEP, BENCH = sys.argv[1:3]
TINY = ["-b", "1K", "-e", "1K", "-n", "2", "--peers", "none"]


def command(*arguments, script=SWEEP):
    return [script, "--program", BENCH, "--backend", "host", *map(str, arguments)]


def sweep(code, *arguments, script=SWEEP):
    done = subprocess.run(command(*arguments, script=script), capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == code, done
    return done


def names(folder, pattern):
    return sorted(file.name for file in folder.glob(pattern))


with tempfile.TemporaryDirectory() as parent:
    folder = Path(parent) / "results"
    flags = ["quick", "--ranks", "1,2", "--out", folder]

    said = sweep(0, *flags, "--dry-run", "--", "-d", "bf16,f32", "-C", "all_reduce,broadcast",
                 *TINY).stdout.splitlines()
    assert len(said) == 9, said
    assert said[-1] == f"# 8 runs with at most 8 measurements, into {folder}", said
    assert sum(" -n 2 " in line and " --preset quick " in line for line in said) == 8, said
    assert not folder.exists(), "a dry run leaves something"

    # PyTorch, here an empty module, is measured beside all-reduces of as many ranks as GPUs.
    (Path(parent) / "torch.py").write_text("")
    os.environ["PYTHONPATH"] = parent
    said = sweep(0, "--backend", "cuda", "--gpus", "4", "quick", "--ranks", "4,8", "--dry-run",
                 "--out", folder, "--", "-d", "f32,f16", "-C", "all_reduce,broadcast").stdout
    del os.environ["PYTHONPATH"]
    torch = [line for line in said.splitlines() if "torch_peer.py" in line]
    assert len(torch) == 1 and " -n 4 " in torch[0], said
    assert "torch_peer.py -b 1024 -e 1048576 -f 32 -d f32 -n 20 -w 2 --repeats 7 " in torch[0], said
    assert f"--machine {folder}/all_reduce-f32-4-ranks.json" in torch[0], said
    assert f"--json {folder}/all_reduce-f32-4-ranks-torch.json" in torch[0], said

    # One rank has no rank 1, so half of the runs fail, and the others are made.
    few = [*flags, "--", "-C", "all_reduce", "--root", "1", *TINY]
    said = sweep(1, *few).stdout
    why = "exit code 2: plait-bench: options: rank 0: --root 1: there are 1 ranks"
    assert f"FAILED: all_reduce-f32-1-ranks: {why}\n" in said, said
    assert "2 runs, 1 failed" in said, said
    assert names(folder, "all_reduce-f32-2-ranks.*") == ["all_reduce-f32-2-ranks.json",
                                                         "all_reduce-f32-2-ranks.txt"]
    file = folder / "all_reduce-f32-2-ranks.json"
    assert [result["name"] for result in json.loads(file.read_text())["results"]] == ["default"]
    written = file.stat().st_mtime_ns

    # The same again makes only what has failed.
    said = sweep(1, *few).stdout
    assert "[2/2] all_reduce-f32-2-ranks: finished before" in said, said
    assert file.stat().st_mtime_ns == written

    # Without Chart.js there is no page, and the sweep is good all the same.
    done = subprocess.run([Path(SWEEP).with_name("report.py"), file, "-o", folder / "page.html",
                           "--chart-js", folder / "none.js"], capture_output=True, text=True)
    assert done.returncode == 3 and "none.js is not there: install libjs-chart.js" in done.stderr
    tools = Path(parent) / "tools"
    tools.mkdir()
    shutil.copy(SWEEP, tools)
    (tools / "report.py").write_text("raise SystemExit(3)")
    said = sweep(1, *few, script=tools / "sweep.py").stdout
    assert "2 runs, 1 failed" in said and "there is no report; later: " in said, said

    other = sweep(2, *flags, "--", *TINY)
    assert f"sweep: {folder} has a sweep of " in other.stderr, other
    assert "\"fast\": expected quick, standard, extensive" in sweep(2, "fast", "--out",
                                                                    folder).stderr

    # Interrupted in the second run.
    folder = Path(parent) / "interrupted"
    two = ["quick", "--ranks", "2,3", "--out", folder, "--", "-C", "all_gather", *TINY]
    process = subprocess.Popen(command(*two), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    for line in process.stdout:
        if line.startswith("[2/2]"):
            break
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "the same command goes on from here" in errors, errors
    finished = json.loads((folder / "sweep.json").read_text())["finished"]
    assert finished == ["all_gather-f32-2-ranks"], finished
print("passed")
