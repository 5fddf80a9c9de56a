#!/usr/bin/env python3
"""resume_test.py PLAIT_BENCH MPIRUN: a run is ended in its middle and goes on with --resume. Its
file then has the results of a whole run, and those of the first part unchanged."""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

BENCH, MPIRUN = sys.argv[1:3]
FLAGS = ["--backend", "host", "--peers", "none", "--algorithms", "default,ring", "-c", "0",
         "-b", "1K", "-e", "4M", "-f", "64", "-w", "0"]


def command(path, *more):
    return [MPIRUN, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2", BENCH,
            *FLAGS, "--json", str(path), *more]


def run(path, *more):
    for _ in range(3):  # Open MPI 4.1 itself may crash or hang at its end
        try:
            done = subprocess.run(command(path, *more), capture_output=True, text=True, timeout=90)
        except subprocess.TimeoutExpired:
            continue
        if done.returncode not in (-11, 139):
            return done
    sys.exit("mpirun crashed or hung three times")


def lines(path):
    try:
        return [line.rstrip(",") for line in path.read_text().splitlines()
                if line.startswith('{"name"')]
    except FileNotFoundError:
        return []


def key(line):
    result = json.loads(line)
    return tuple(result[field] for field in ("name", "collective", "type", "bytes", "memory"))


def end_early(path):
    """Ends a run after its first results, and returns these."""
    with open(path.with_suffix(".log"), "w") as log:
        process = subprocess.Popen(command(path, "-n", "30"), stdout=log, stderr=log)
        until = time.monotonic() + 60
        while not lines(path) and time.monotonic() < until:
            time.sleep(0.05)
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if len(lines(path)) == 6:  # a fast machine: the run had ended before
        keep_first(path, 2)
    return lines(path)


def keep_first(path, results):
    """Leaves the file as it is after the first size."""
    head = path.read_text().splitlines()[0]
    text = ",\n".join(lines(path)[:results])
    path.write_text(f'{head}\n"results":[\n{text}\n]}}\n')



with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    path = folder / "ended.json"
    early = end_early(path)
    assert 0 < len(early) < 6, f"the run was ended after {len(early)} of 6 results"

    done = run(path, "-n", "30", "--repeats", "8", "--resume")
    assert done.returncode == 2, done
    assert "it was measured with settings" in done.stderr, done.stderr
    assert lines(path) == early, "a run that was refused changed the file"

    done = run(path, "-n", "30", "--resume")
    assert done.returncode == 0, done
    said = f"# taken over, not measured again: {len(early)} results of "
    assert said in done.stdout, done.stdout
    after = lines(path)
    assert after[:len(early)] == early, "results were measured again"
    assert len(after) == 6, after

    whole = folder / "whole.json"
    assert run(whole, "-n", "2").returncode == 0
    assert sorted(map(key, after)) == sorted(map(key, lines(whole)))

    # Nothing is left to measure.
    done = run(path, "-n", "30", "--resume")
    assert done.returncode == 0, done
    assert lines(path) == after
    assert list(folder.glob("*.part")) == []
print("passed")
