#!/usr/bin/env python3
"""sweep.py [quick|standard|extensive] [--ranks 2,4,8] [--out FOLDER] [--dry-run] [-- FLAGS]: runs
plait-bench over collectives, types and numbers of ranks. `./run sweep` calls it, and says where the
program is.

There is one run, and one file, for each collective, type and number of ranks:
FOLDER/all_reduce-bf16-4-ranks.json, with the printed table beside it (.txt). FLAGS are those of
plait-bench and win over the preset's. A run that fails is named at the end and does not stop the
others. The same command goes on after an interruption: finished runs are in FOLDER/sweep.json, and
the others continue with their files. The exit code is 0, 1 if a run failed, 2 for a wrong request,
130 after an interruption.

Where PyTorch and GPUs are, tools/torch_peer.py measures PyTorch's symmetric memory beside each
all-reduce. Where tools/report.py and Chart.js are, FOLDER/report.html shows all files."""
import argparse
import datetime
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time

TOOLS = pathlib.Path(__file__).resolve().parent


def fail(text):
    print(f"sweep: {text}", file=sys.stderr)
    sys.exit(2)


def numbers(text):
    try:
        values = [int(word) for word in text.split(",")]
    except ValueError:
        values = [0]
    if min(values) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no list of numbers such as 2,4,8")
    return list(dict.fromkeys(values))


def parse(words):
    flags = []
    if "--" in words:
        at = words.index("--")
        words, flags = words[:at], words[at + 1:]
    parser = argparse.ArgumentParser(prog="sweep", description=__doc__.partition("\n\n")[2],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", nargs="?", default="standard", metavar="PRESET",
                        help="of plait-bench: quick, standard (default) or extensive")
    parser.add_argument("--ranks", type=numbers, help="numbers of ranks (default: 2, 4, 8, ... up "
                        "to the number of GPUs; 2 without GPUs)")
    parser.add_argument("--out", type=pathlib.Path,
                        default=pathlib.Path(f"sweep-{datetime.date.today()}"),
                        help="folder of the results (default: sweep-DATE)")
    parser.add_argument("--dry-run", action="store_true",
                        help="print the commands and the number of measurements, and run nothing")
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--backend", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--gpus", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    options.flags = flags
    if options.ranks is None:
        options.ranks = [2]
        while options.backend != "host" and options.ranks[-1] * 2 <= options.gpus:
            options.ranks.append(options.ranks[-1] * 2)
    return options


class Run:
    """One command, with the file that it writes."""

    def __init__(self, name, command, at_most):
        self.name, self.command, self.at_most = name, command, at_most


def plan(options):
    """What plait-bench would measure with these flags."""
    done = subprocess.run([options.program, "--backend", options.backend, "--preset",
                           options.preset, *options.flags, "--dry-run"],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        fail(done.stderr.strip() or f"{options.program} failed with exit code {done.returncode}")
    return json.loads(done.stdout)


def launcher(options, ranks):
    if options.backend == "cuda" and ranks > options.gpus and shutil.which(
            "nvidia-cuda-mps-control"):
        return [str(TOOLS / "mps-run.sh"), str(ranks)]  # side by side on one GPU
    return ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)]


def has_torch(options):
    """Whether PyTorch can be a peer here. Importing it takes seconds, so GPUs are asked for first.
    """
    if options.backend != "cuda" or not any(1 < ranks <= options.gpus for ranks in options.ranks):
        return False
    return subprocess.run([sys.executable, "-c", "import torch"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def torch_run(options, what, name, ranks, element_type):
    """PyTorch beside an all-reduce of plait-bench, with its sizes."""
    sizes = what["bytes"]
    factor = sizes[1] // sizes[0] if len(sizes) > 1 else 2
    command = [*launcher(options, ranks), sys.executable, str(TOOLS / "torch_peer.py"),
               "-b", str(sizes[0]), "-e", str(sizes[-1]), "-f", str(factor), "-d", element_type,
               "-n", str(what["iterations"]), "-w", str(what["warm_up"]),
               "--repeats", str(what["repeats"]),
               "--machine", str(options.out / f"{name}.json"),
               "--json", str(options.out / f"{name}-torch.json")]
    return Run(f"{name}-torch", command, 2 * len(sizes))


def runs(options):
    what = plan(options)
    torch = has_torch(options)
    # A bar needs a terminal, and mpirun hides it from the ranks.
    progress = "bar" if sys.stderr.isatty() else "none"
    for ranks in options.ranks:
        for run in what["runs"]:
            name = f"{run['collective']}-{run['type']}-{ranks}-ranks"
            command = [*launcher(options, ranks), options.program, "--backend", options.backend,
                       "--preset", options.preset, *options.flags, "-C", run["collective"],
                       "-d", run["type"], "--json", str(options.out / f"{name}.json"), "--resume",
                       "--progress", progress]
            yield Run(name, command, run["at_most"])
            if torch and run["collective"] == "all_reduce" and run["type"] in ("bf16", "f32") and (
                    1 < ranks <= options.gpus):
                yield torch_run(options, what, name, ranks, run["type"])


class Finished:
    """FOLDER/sweep.json: what the sweep is of, and the runs that are finished."""

    def __init__(self, options):
        self.path = options.out / "sweep.json"
        self.names = []
        self.of = {"backend": options.backend, "preset": options.preset, "flags": options.flags}
        try:
            earlier = json.loads(self.path.read_text())
            names, of = earlier["finished"], earlier["of"]
        except FileNotFoundError:
            return
        except (ValueError, KeyError, TypeError) as error:
            fail(f"{self.path} is broken ({error!r}); remove it to begin again")
        if of != self.of:
            fail(f"{options.out} has a sweep of {json.dumps(of)}, and this one is of "
                 f"{json.dumps(self.of)}; name another folder with --out")
        self.names = names

    def add(self, name):
        self.names.append(name)
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps({"of": self.of, "finished": self.names}, indent=1) + "\n")
        part.replace(self.path)


def execute(run, table):
    """Runs it, with the table in that file. Returns why it failed, or None."""
    said = b""
    with open(table, "wb") as out:
        process = subprocess.Popen(run.command, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.PIPE)
        try:
            # The bar comes through as it is drawn.
            while chunk := os.read(process.stderr.fileno(), 65536):
                said = (said + chunk)[-65536:]
                sys.stderr.buffer.write(chunk)
                sys.stderr.flush()
            code = process.wait()
        except KeyboardInterrupt:
            process.terminate()  # mpirun ends its ranks
            process.wait()
            raise
    if code == 0:
        return None
    lines = said.decode(errors="replace").replace("\r\x1b[K", "\n").splitlines()
    reasons = [line for line in lines if line.startswith(("plait-bench: ", "torch_peer: "))]
    return f"exit code {code}" + (f": {reasons[-1]}" if reasons else "")


def report(options):
    """Makes the page, unless Chart.js is not here. Returns why that failed, or None."""
    script = TOOLS / "report.py"
    files = sorted(str(file) for file in options.out.glob("*-ranks*.json") if file.stat().st_size)
    if not script.exists() or not files:
        return None
    page = options.out / "report.html"
    done = subprocess.run([sys.executable, str(script), *files, "-o", str(page)],
                          stdin=subprocess.DEVNULL)
    if done.returncode == 3:  # it has said that Chart.js is missing
        print(f"there is no report; later: {script} {options.out}/*.json -o {page}")
        return None
    if done.returncode != 0:
        return f"exit code {done.returncode}"
    print(f"the report is {page}")
    return None


def dry_run(all_runs, options):
    for run in all_runs:
        print(shlex.join(run.command))
    at_most = sum(run.at_most for run in all_runs)
    print(f"# {len(all_runs)} runs with at most {at_most} measurements, into {options.out}")


def sweep(all_runs, options):
    options.out.mkdir(parents=True, exist_ok=True)
    finished, failed = Finished(options), {}
    for number, run in enumerate(all_runs, 1):
        place = f"[{number}/{len(all_runs)}] {run.name}"
        if run.name in finished.names:
            print(f"{place}: finished before", flush=True)
            continue
        print(f"{place}: at most {run.at_most} measurements", flush=True)
        start = time.monotonic()
        why = execute(run, options.out / f"{run.name}.txt")
        if why is None:
            finished.add(run.name)
            print(f"{place}: done in {time.monotonic() - start:.0f} s", flush=True)
        else:
            failed[run.name] = why
            print(f"{place}: FAILED", flush=True)
    if (why := report(options)) is not None:
        failed["report.html"] = why
    print(f"{len(all_runs)} runs, {len(failed)} failed, in {options.out}")
    for name, why in failed.items():
        print(f"FAILED: {name}: {why}")
    return 1 if failed else 0


def main():
    options = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    all_runs = list(runs(options))
    if options.dry_run:
        return dry_run(all_runs, options)
    try:
        return sweep(all_runs, options)
    except KeyboardInterrupt:
        print("\nsweep: interrupted; the same command goes on from here", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
