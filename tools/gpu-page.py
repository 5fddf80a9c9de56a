#!/usr/bin/env python3
"""gpu-page.py RANKS FOLDER: measures what a page about GPUs in docs/benchmarks shows, a file for
each table, in steps with limits of time. Run it in the top folder of a tree where plait-bench,
mpi_zoo_test, plait-tune and libnccl.so.2 are built, behind `. tools/gpu-env.sh`.

  --seconds 570     no step begins that may take longer than what is left of these. The same command
                    goes on later: a step whose file is in FOLDER is left out. So long measurements
                    fit machines that are lent for ten minutes, if FOLDER travels with the tree.
  --only NAME,...   these steps
  --build FOLDER    where the programs are (build-cuda)
  --pack FILE.tgz   an archive of FOLDER, renewed after every step
  --dry-run         prints the steps, their limits and commands

More ranks than GPUs share the first one (tools/mps-run.sh), without NCCL and PyTorch, which refuse
that. Nothing is timed if the tests fail. The
results become a page's data under other names: FOLDER/blocking.json is h200-2-blocking.json. The
exit code is 0 if all steps are done, 1 if one failed, 3 if some are left."""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import time

START = time.monotonic()
MOVES = ("reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce", "gather", "scatter",
         "send_recv")
LANES = (1, 2, 3, 4, 7, 16, 32, 64, 132)
SCRATCH = ("4M", "8M", "16M", "32M", "64M", "128M", "256M")
SMALL = "-b 1K -e 1M -f 16 -c 0"
WHOLE = "-b 1K -e 1G -f 4 -c 0 --memory both"


class Step:
    """`bench`: flags of plait-bench, once for each file that is merged, behind settings of the
    environment (`PLAIT_SCRATCH_BYTES=4M -b 1M`). `command`: another one,
    which writes the file itself, or whose output it is."""

    def __init__(self, name, limit, bench=(), command=None, peers=True, env=None):
        self.name, self.limit, self.bench, self.command = name, limit, bench, command
        self.peers, self.env = peers, env or {}

    @property
    def file(self):
        return self.name + (".json" if self.bench or "{file}" in self.command else ".txt")


def steps(build):
    default, graph = "--algorithms default", "--timing graph"
    enqueue = f"--timing enqueue -b 1K -e 1K -c 0 -d bf16 -C all {default}"
    own = {"PLAIT_NCCL_LIB": str(build.resolve() / "lib/libnccl.so.2")}
    torch = "python3 -m torch.distributed.run --standalone --nproc-per-node {n} "
    return [
        Step("tests", 120, command="{launch} {bin}/mpi_zoo_test"),
        Step("all-reduce", 180, [f"{graph} {WHOLE} -d bf16 --algorithms all"]),
        Step("collectives", 280, [f"{graph} {WHOLE.replace('1G', '4G')} -d bf16 {default}"] + [
            f"{graph} {WHOLE} -d bf16 {default} -C {name}" for name in MOVES]),
        Step("f32", 60, [f"{graph} {WHOLE.replace('1G', '4G')} -d f32 {default}"]),
        Step("blocking", 60, [f"--timing latency {SMALL} -d bf16 -C all {default} --memory both"]),
        Step("enqueue", 40, [enqueue]),
        Step("enqueue-own-nccl", 40, [enqueue], env=own),
        Step("counts", 90, [
            f"{graph} -d f32 -b 1K -e 16M -f 8 --memory ordinary -C {of} "
            f"--algorithms default,{call}"
            for call, of in (("all_gather_v", "all_gather"), ("all_to_all_v", "all_to_all"),
                             ("gather_v", "gather"), ("scatter_v", "scatter"),
                             ("neighbor_all_to_all_v", "send_recv"))]),
        Step("scan", 60, [f"{graph} -C scan,exscan -d f32 -b 1K -e 64M -f 4 --algorithms all"],
             peers=False),
        Step("first-calls", 30, ["--timing latency -n 10 -w 0 -c 0 -d f32 -b 1K -e 1K "
                                 "--algorithms all"], peers=False),
        Step("lanes", 60, [f"{graph} -d f32 -b 64M -e 64M -c 0 --algorithms flash,stream "
                           f"--blocks {lanes}" for lanes in LANES], peers=False),
        Step("slices", 60, [f"PLAIT_SCRATCH_BYTES={size} {graph} -d f32 -b 64M -e 256M -f 4 -c 0 "
                            "--algorithms ring,stream,tree --memory ordinary"
                            for size in SCRATCH], peers=False),
        Step("offsets", 30, [f"{graph} -d f32 -b 1M -e 64M -f 8 -c 0 --algorithms "
                             "flash,twoshot,ring,stream --offset 0,4"], peers=False),
        Step("tuned-check", 120, command="{launch} {bin}/plait-tune --check --sizes 12 -v"),
        Step("torch", 60, command="{launch} tools/torch_peer.py -d bf16 -b 1K -e 1G -f 4 "
                                  "--machine {folder}/f32.json --json {file}"),
        Step("training-plait", 90, command=torch + "tools/torch_training.py --json {file}",
             env={"PLAIT_NCCL_SO": own["PLAIT_NCCL_LIB"]}),
        Step("training-nccl", 90, command=torch + "tools/torch_training.py --json {file}",
             env={"PLAIT_NCCL_SO": os.environ.get("PLAIT_NCCL_LIB", "")}),
    ]


def gpus():
    if not shutil.which("nvidia-smi"):
        return 0
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return listed.stdout.count("GPU ")


class Page:
    def __init__(self, options):
        self.options, self.folder = options, pathlib.Path(options.folder)
        self.backend = os.environ.get("PLAIT_BACKEND", "cuda")
        self.alone = options.dry_run or self.backend == "host" or options.ranks <= gpus()
        self.launch = ("mpirun --oversubscribe --bind-to none -n" if self.alone
                       else "tools/mps-run.sh") + f" {options.ranks}"

    def commands(self, step):
        """Each with the file that it writes, or None: then the file is its output."""
        peers = "nccl" if step.peers and self.alone and self.backend != "host" else "none"
        parts = self.folder / "parts"
        for i, flags in enumerate(step.bench):
            part = parts / f"{step.name}-{i}.json"
            settings = "".join(re.findall(r"^(?:[A-Z_]+=\S+ )+", flags))
            yield (f"{self.launch} env {settings}{self.options.build}/bin/plait-bench --backend "
                   f"{self.backend} {flags[len(settings):]} --peers {peers} "
                   f"--json {part}", part)
        if step.command:
            part = parts / step.file
            yield (step.command.format(launch=self.launch, bin=f"{self.options.build}/bin",
                                       n=self.options.ranks, folder=self.folder, file=part),
                   part if "{file}" in step.command else None)

    def run(self, step):
        """Whether the step's file is there now."""
        (self.folder / "parts").mkdir(parents=True, exist_ok=True)
        log, until = self.folder / f"{step.name}.log", time.monotonic() + step.limit
        files = []
        for command, file in self.commands(step):
            # Ended by SIGTERM first, so that mpirun ends its ranks.
            left = str(max(int(until - time.monotonic()), 1))
            with open(log, "ab") as output:
                done = subprocess.run(["timeout", "-k", "10", left, *command.split()],
                                      stdout=output, stderr=subprocess.STDOUT,
                                      stdin=subprocess.DEVNULL, env=os.environ | step.env,
                                      check=False)
            if done.returncode != 0 or (file and not file.exists()):
                return False
            files.append(file or log)
        self.keep(step, files)
        return True

    def keep(self, step, files):
        text = files[0].read_text(errors="replace")
        if step.bench:
            whole = json.loads(text)
            whole["results"] = []
            for flags, file in zip(step.bench, files):
                rows = json.loads(file.read_text())["results"]
                if blocks := re.search(r"--blocks (\d+)", flags):
                    rows = [row | {"blocks": int(blocks[1])} for row in rows]
                if scratch := re.search(r"PLAIT_SCRATCH_BYTES=(\S+)", flags):
                    rows = [row | {"scratch": scratch[1]} for row in rows]
                whole["results"] += rows
            line = re.sub(r"\S*/bin/| --json \S+", "", whole["machine"]["command_line"])
            whole["machine"]["command_line"] = line
            text = "{\"machine\":%s,\"results\":[\n%s\n]}\n" % (
                json.dumps(whole["machine"]),
                ",\n".join(json.dumps(row, separators=(",", ":")) for row in whole["results"]))
        (self.folder / step.file).write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ranks", type=int)
    parser.add_argument("folder")
    parser.add_argument("--seconds", type=int, default=570)
    parser.add_argument("--only", default="")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build-cuda"))
    parser.add_argument("--pack")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    page, failed, left = Page(options), 0, 0
    for step in steps(options.build):
        if options.only and step.name not in options.only.split(","):
            continue
        if not page.alone and step.command and "torch" in step.command:
            continue
        if options.dry_run:
            print(f"{step.file}, at most {step.limit} s", *(c for c, _ in page.commands(step)),
                  sep="\n  ")
            continue
        if (page.folder / step.file).exists():
            continue
        if time.monotonic() - START + step.limit > options.seconds:
            left += 1
            continue
        begin = time.monotonic()
        done = page.run(step)
        failed += not done
        print(f"{step.name}: {'done' if done else 'FAILED'}, {time.monotonic() - begin:.0f} s",
              flush=True)
        if step.name == "tests" and not done:
            break
        if options.pack:
            with tarfile.open(options.pack, "w:gz") as archive:
                archive.add(page.folder, page.folder.name)
    if left:
        print(f"{left} steps are left: the same command goes on")
    return 1 if failed else 3 if left else 0


if __name__ == "__main__":
    sys.exit(main())
