#!/usr/bin/env python3
"""nodes_calls.py BIN FOLDER [SHAPE...]: collectives between emulated nodes (tools/nodes.sh), beside
MPI's: loops of blocking calls. BIN has plait-bench. A SHAPE is NODESxRANKS or
NODESxRANKS@RATE; the default is 2x2@400mbit 4x2@400mbit 2x2 4x2. FOLDER gets, for each shape,

    nodes-SHAPE-calls.json     all collectives, of those with a root each with the next rank as root
    nodes-SHAPE-one-root.json  broadcasts from rank 0 alone
    nodes-SHAPE-wire.json      the bytes that all nodes together send for a small call

With --only NAME,... only files whose names end so are made. Exit code 1 if a run has failed."""
import argparse
import json
import os
import pathlib
import subprocess
import sys

TOOLS = pathlib.Path(__file__).resolve().parent
COLLECTIVES = "broadcast,all_to_all,all_gather,reduce_scatter,all_reduce"
SHAPES = ["2x2@400mbit", "4x2@400mbit", "2x2", "4x2"]
MPIRUN = "mpirun --bind-to none --oversubscribe --mca mpi_yield_when_idle 1 --host".split()


def bench(arguments, *flags):
    command = [*MPIRUN, arguments.hosts, f"{arguments.bin}/plait-bench", "--memory", "ordinary",
               "--timing", "loop", "--algorithms", "default", *flags]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def sent():
    """Bytes that all nodes have sent."""
    def by(node):
        return int(subprocess.run([TOOLS / "nodes.sh", "bytes", node], check=True, text=True,
                                  capture_output=True).stdout.split()[0])
    return sum(by(node) for node in os.environ["NODES_NAMES"].split())


def wire(arguments):
    """Of a longer run less a shorter one, so that what a run sends once does not count."""
    least, repeats = 20, 7

    def run(collective, size, peers, calls):
        before = sent()
        bench(arguments, "--peers", peers, "-C", collective, "--rotate-root", "-b", size, "-e",
              size, "-n", str(calls), "-w", "0", "-c", "0", "--repeats", str(repeats))
        return sent() - before
    results = []
    for collective in COLLECTIVES.split(","):
        for size in arguments.wire_sizes.split(","):
            ours, both = (run(collective, size, peers, arguments.calls + least) -
                          run(collective, size, peers, least) for peers in ("none", "mpi"))
            calls = arguments.calls * repeats
            results.append({"collective": collective, "bytes": size, "ours": ours / calls,
                            "mpi": (both - ours) / calls})
            print(results[-1], flush=True)
    return results


def inside(arguments):
    """On node n0."""
    def wants(name):
        return not arguments.only or name in arguments.only.split(",")
    name = str(arguments.folder / f"nodes-{arguments.shapes[0].replace('@', '-')}-")
    if wants("calls"):
        bench(arguments, "--peers", "mpi", "-C", COLLECTIVES + ",reduce,gather,scatter",
              "--rotate-root", "-b", "8", "-e", "2M", "-f", "8", "--json", f"{name}calls.json")
    if wants("one-root"):
        bench(arguments, "--peers", "mpi", "-C", "broadcast", "-b", "8", "-e", "2M", "-f", "8",
              "--json", f"{name}one-root.json")
    if wants("wire"):
        pathlib.Path(f"{name}wire.json").write_text(json.dumps(wire(arguments), indent=1) + "\n",
                                                    encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("folder", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("shapes", nargs="*", default=SHAPES)
    parser.add_argument("--only", default="")
    parser.add_argument("--calls", type=int, default=100, help="per repeat, for the bytes sent")
    parser.add_argument("--wire-sizes", default="16,512,4K")
    parser.add_argument("--hosts", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.hosts:
        return inside(arguments)
    for name, value in (("PLAIT_CALIBRATE", "0"), ("PLAIT_SCRATCH_BYTES", "64M")):
        os.environ.setdefault(name, value)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    failed = False
    for shape in arguments.shapes:
        places, _, rate = shape.partition("@")
        nodes, ranks = (int(number) for number in places.split("x"))
        hosts = ",".join(f"n{node}:{ranks}" for node in range(nodes))
        command = [TOOLS / "nodes.sh", *(["--rate", rate] if rate else []), str(nodes),
                   sys.executable, __file__, arguments.bin, arguments.folder, shape, "--hosts",
                   hosts, "--only", arguments.only, "--calls", str(arguments.calls), "--wire-sizes",
                   arguments.wire_sizes]
        failed = subprocess.run(command).returncode != 0 or failed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
