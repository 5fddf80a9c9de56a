#!/usr/bin/env python3
"""torch_peer.py [-b 1K] [-e 1G] [-f 4] [-d f32,bf16] [--json FILE]: measures the all-reduces of
PyTorch's symmetric memory as plait-bench measures its peers, and writes the same JSON.

    mpirun -n 4 tools/torch_peer.py -d bf16 --json torch.json

One rank is one process with one GPU of this node. mpirun, torchrun or srun starts them. The times
are those of `plait-bench --timing graph`: a CUDA graph of N calls between two events, with a
barrier before, of the slowest rank. Out of place it is one_shot_all_reduce_out, in place
two_shot_all_reduce_ ("chosen" names it); two_shot_all_reduce_out is left out because it overwrites
its input. Every configuration's result is compared with the exact sum.

Never NVLink multicast: no multimem operation is called, and TORCH_SYMM_MEM_DISABLE_MULTICAST=1 is
set before PyTorch is imported, so that a rendezvous makes no multicast object.

Exit code: 0, 1 if results are wrong, 2 if the request can't be served, 3 if something broke."""
import argparse
import datetime
import json
import math
import os
import pathlib
import shlex
import socket
import statistics
import sys
import time
import zlib

NAME = "peer:torch-symmetric"
TYPES = {"bf16": ("bfloat16", 2), "f32": ("float32", 4)}  # those of the operations
ALIGNMENT = 16  # of all buffers, in bytes


class Refused(Exception):
    """The request can't be served. All ranks meet it together."""


# --- the request ----------------------------------------------------------------------------------

def parse_bytes(text):
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    if not number.isdecimal() or int(number) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of bytes such as 64K, 16M or 1G")
    return int(number) * unit


def parse_types(text):
    for word in text.split(","):
        if word not in TYPES:
            raise argparse.ArgumentTypeError(f"'{word}' is none of {', '.join(TYPES)}")
    return text.split(",")


def parse(words):
    parser = argparse.ArgumentParser(prog="torch_peer", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-b", "--min-bytes", type=parse_bytes, default="1K")
    parser.add_argument("-e", "--max-bytes", type=parse_bytes, default="1G")
    parser.add_argument("-f", "--factor", type=int, default=4)
    parser.add_argument("-d", "--type", type=parse_types, default="f32")
    parser.add_argument("-n", "--iterations", type=int, default=0,
                        help="timed calls per repeat (default: as many as plait-bench takes)")
    parser.add_argument("-w", "--warm-up", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--in-place", choices=("0", "1", "both"), default="both")
    parser.add_argument("--json", type=pathlib.Path, help="write the results to this file")
    parser.add_argument("--machine", type=pathlib.Path,
                        help="file of plait-bench of the same ranks, which describes the machine")
    options = parser.parse_args(words)
    if options.factor < 2:
        parser.error("-f: at least 2")
    if options.repeats < 1 or options.iterations < 0 or options.warm_up < 0:
        parser.error("--repeats, -n and -w: not below 1, 0 and 0")
    if options.min_bytes > options.max_bytes:
        parser.error("-b is more than -e")
    options.command_line = shlex.join(["torch_peer.py", *words])
    return options


def sizes(options):
    size = options.min_bytes
    while size <= options.max_bytes:
        yield size
        size *= options.factor


# --- times ----------------------------------------------------------------------------------------

class Timer:
    """The clock of plait-bench (bench/timing.cpp), with its numbers of calls."""
    SMALL_BYTES, SMALL_CALLS, MOST_CALLS, LEAST_CALLS = 256 << 10, 200, 400, 3
    REPEAT_US, LONGEST_REPEAT_US, LEAST_SMALL_CALLS = 50e3, 1e6, 20

    def __init__(self, backend, options, clock=time.perf_counter):
        self.backend, self.options, self.clock = backend, options, clock

    def measure(self, call, size):
        """Microseconds per call of the slowest rank, one per repeat, and the calls per repeat."""
        for _ in range(max(self.options.warm_up, 1)):
            call()
        self.backend.synchronize()
        calls = self.options.iterations or self.choose_calls(call, size)
        graph = self.backend.capture(call, calls)
        self.backend.replay(graph)  # the first launch uploads the graph
        return [self.backend.slowest(self.backend.replay(graph)) / calls
                for _ in range(self.options.repeats)], calls

    def choose_calls(self, call, size):
        tries = 3
        self.backend.line_up()
        start = self.clock()
        for _ in range(tries):
            call()
        self.backend.synchronize()
        call_us = max(self.backend.slowest((self.clock() - start) * 1e6) / tries, 0.01)

        def calls_in(budget, least):
            return int(min(max(math.floor(budget / call_us), least), self.MOST_CALLS))

        calls = calls_in(self.REPEAT_US, self.LEAST_CALLS)
        if size > self.SMALL_BYTES:
            return calls
        return max(calls, min(self.SMALL_CALLS,
                              calls_in(self.LONGEST_REPEAT_US, self.LEAST_SMALL_CALLS)))


def quantile(times, q):
    """Interpolates linearly between the two values around q * (size - 1)."""
    ordered = sorted(times)
    position = q * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


# --- results --------------------------------------------------------------------------------------

def ceiling(machine):
    """The greatest bandwidth that was measured on the machine, or None."""
    ceilings = machine.get("ceilings") or {}
    known = [ceilings.get(name) for name in ("push_gbs", "pull_gbs", "copy_engine_gbs")]
    return max((value for value in known if value), default=None)


def result_of(machine, ranks, element_type, size, in_place, operation, times, calls, wrong):
    """A result as plait-bench writes it."""
    time_us = quantile(times, 0.5)
    algbw = size / (time_us * 1e3)
    busbw = algbw * 2 * (ranks - 1) / ranks
    top = ceiling(machine)
    return {
        "name": NAME, "collective": "all_reduce", "type": element_type, "op": "sum",
        "ranks": ranks, "bytes": size, "offset_bytes": 0, "in_place": in_place,
        "memory": "symmetric", "timing": "graph", "time_us": time_us, "algbw": algbw,
        "busbw": busbw, "percent_of_ceiling": 100 * busbw / top if top else None, "wrong": wrong,
        "chosen": operation, "time_us_min": min(times), "time_us_max": max(times),
        "time_us_mean": statistics.fmean(times),
        "time_us_stddev": statistics.stdev(times) if len(times) > 1 else 0.0,
        "time_us_p5": quantile(times, 0.05), "time_us_p50": time_us,
        "time_us_p95": quantile(times, 0.95), "time_us_p99": quantile(times, 0.99),
        "samples": len(times), "samples_of": "repeats", "repeats": len(times), "calls": calls,
    }


def machine_of(backend, options):
    """What the file of plait-bench says of the machine, or what is known without it."""
    if options.machine is None:
        machine = {
            "hostname": socket.gethostname(), "backend": backend.kind, "devices": backend.devices,
            "ranks": backend.ranks, "nodes": 1, "plait_version": None, "nccl_version": None,
            "mpi_version": None, "link_gbs": None, "link_measured": "not measured",
            "processes": backend.ranks,
        }
    else:
        try:
            machine = json.loads(options.machine.read_text())["machine"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Refused(f"--machine {options.machine}: {error!r}") from error
        if (machine.get("ranks"), machine.get("devices")) != (backend.ranks, backend.devices):
            raise Refused(f"--machine {options.machine}: it has {machine.get('ranks')} ranks on "
                          f"{machine.get('devices')}, and this run {backend.ranks} on "
                          f"{backend.devices}")
    machine["date"] = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    machine["torch_version"] = backend.version
    machine["command_line"] = options.command_line
    machine["settings"] = (f"-n {options.iterations} -w {options.warm_up} -c 1 --root 0 "
                           f"--repeats {options.repeats} --blocks 0 --threads 0")
    return machine


def write_json(path, machine, results):
    """Writes the file as plait-bench does, and replaces it as a whole."""
    lines = ",\n".join(json.dumps(result, separators=(",", ":")) for result in results)
    part = pathlib.Path(f"{path}.part")
    part.write_text(f'{{"machine":{json.dumps(machine, separators=(",", ":"))},\n'
                    f'"results":[\n{lines}\n]}}\n')
    part.replace(path)


# --- measuring ------------------------------------------------------------------------------------

def measure_size(backend, timer, machine, element_type, size, in_place):
    operation = "two_shot_all_reduce_" if in_place else "one_shot_all_reduce_out"
    call = backend.call(operation, size)
    times, calls = timer.measure(call, size)
    result = result_of(machine, backend.ranks, element_type, size, in_place, operation, times,
                       calls, backend.count_wrong(call, size))
    backend.note(f"{element_type} {size} {'in' if in_place else 'out of'} place, {operation}: "
                 f"{result['time_us']:.2f} us, {result['busbw']:.1f} GB/s, {result['wrong']} wrong")
    return result


def measure(backend, options, timer=None):
    """Measures everything and writes the file. Returns the results."""
    timer = timer or Timer(backend, options)
    machine, results = machine_of(backend, options), []
    places = {"0": [False], "1": [True], "both": [False, True]}[options.in_place]
    for size in sizes(options):
        if size % ALIGNMENT != 0:
            raise Refused(f"{size} bytes: the operations need multiples of {ALIGNMENT}")
    for element_type in options.type:
        backend.allocate(element_type, max(sizes(options)))
        for size in sizes(options):
            for in_place in places:
                results.append(
                    measure_size(backend, timer, machine, element_type, size, in_place))
            if options.json and backend.rank == 0:
                write_json(options.json, machine, results)
    return results


class Launched:
    """Rank, number of ranks and rank on the node, from the launcher's environment."""
    LAUNCHERS = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
                 ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
                 ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"))

    def __init__(self, environment):
        for names in self.LAUNCHERS:
            if all(name in environment for name in names):
                self.rank, self.ranks, self.local_rank = (int(environment[name]) for name in names)
                break
        else:
            raise Refused("start it with mpirun, torchrun or srun")
        # The ranks are of one node, and the same launcher has started all of them.
        job = f"{environment.get('PMIX_NAMESPACE')} {os.getppid()}"
        self.environment = {
            "RANK": str(self.rank), "WORLD_SIZE": str(self.ranks),
            "LOCAL_RANK": str(self.local_rank),
            "MASTER_ADDR": environment.get("MASTER_ADDR", "127.0.0.1"),
            "MASTER_PORT": environment.get("MASTER_PORT",
                                           str(20000 + zlib.crc32(job.encode()) % 10000)),
        }


class TorchBackend:
    """Symmetric memory of PyTorch on this rank's GPU."""

    def __init__(self, launched):
        os.environ.update(launched.environment)
        # PyTorch then takes the GPUs for ones without multicast, so a rendezvous makes no multicast
        # object and binds no memory to one. Its backends over NVSHMEM and NCCL, which know nothing
        # of that variable, are not taken, and NCCL is told the same.
        os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] = "1"
        os.environ["TORCH_SYMMMEM"] = "CUDA"
        os.environ["NCCL_NVLS_ENABLE"] = "0"
        try:
            import torch
            import torch.distributed
            import torch.distributed._symmetric_memory
        except ImportError as error:
            raise Refused(f"no PyTorch with symmetric memory is here: {error}") from error
        self.torch, self.dist = torch, torch.distributed
        self.memory = torch.distributed._symmetric_memory
        if launched.ranks < 2:
            raise Refused("an all-reduce is measured between at least 2 ranks")
        if torch.cuda.device_count() < launched.ranks:
            raise Refused(f"{launched.ranks} ranks, and {torch.cuda.device_count()} GPUs: each "
                          "rank needs one")
        self.rank, self.ranks = launched.rank, launched.ranks
        self.device = torch.device("cuda", launched.local_rank)
        torch.cuda.set_device(self.device)
        self.dist.init_process_group("gloo", rank=self.rank, world_size=self.ranks)
        self.group = self.dist.group.WORLD.group_name
        self.stream = torch.cuda.Stream(self.device)
        torch.cuda.set_stream(self.stream)
        self.kind = "hip" if torch.version.hip else "cuda"
        self.version = torch.__version__
        self.devices = self.gather(torch.cuda.get_device_name(self.device))

    def note(self, text):
        if self.rank == 0:
            print(text, flush=True)

    def gather(self, mine):
        every = [None] * self.ranks
        self.dist.all_gather_object(every, mine)
        return every

    def slowest(self, microseconds):
        return max(self.gather(microseconds))

    def synchronize(self):
        self.stream.synchronize()

    def line_up(self):
        self.dist.barrier()
        self.handle.barrier()
        self.synchronize()

    def allocate(self, element_type, size):
        """Collective. A symmetric buffer, and an ordinary one for results out of place."""
        name, self.element_bytes = TYPES[element_type]
        dtype = getattr(self.torch, name)
        count = size // self.element_bytes
        self.send = self.memory.empty(count, dtype=dtype, device=self.device)
        self.handle = self.memory.rendezvous(self.send, self.group)
        self.recv = self.torch.empty(count, dtype=dtype, device=self.device)

    def call(self, operation, size):
        """A function that enqueues one call on the stream."""
        run = getattr(self.torch.ops.symm_mem, operation)
        count = size // self.element_bytes
        send, recv = self.send[:count], self.recv[:count]
        if operation.endswith("_out"):
            return lambda: run(send, "sum", self.group, recv)
        return lambda: run(send, "sum", self.group)

    def capture(self, call, calls):
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph, stream=self.stream):
            for _ in range(calls):
                call()
        return graph

    def replay(self, graph):
        """Microseconds of this rank between the events around the graph."""
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.dist.barrier()
        self.handle.barrier()
        begin.record(self.stream)
        graph.replay()
        end.record(self.stream)
        self.synchronize()
        return begin.elapsed_time(end) * 1e3

    def count_wrong(self, call, size):
        """Elements of all ranks that differ from the sum of small integers, which is exact."""
        count = size // self.element_bytes
        index = self.torch.arange(count, device=self.device)
        self.send[:count] = (index * 7 + self.rank * 3) % 8
        wanted = sum((index * 7 + rank * 3) % 8 for rank in range(self.ranks))
        self.recv[:count] = -1
        self.synchronize()
        self.line_up()  # all inputs are written
        got = call()
        wrong = int((got != wanted.to(got.dtype)).sum())
        self.line_up()
        return sum(self.gather(wrong))

    def close(self):
        self.dist.barrier()
        self.dist.destroy_process_group()


def main():
    options = parse(sys.argv[1:])
    rank = 0
    try:
        launched = Launched(os.environ)
        rank = launched.rank
        backend = TorchBackend(launched)
        results = measure(backend, options)
        backend.close()
        return 1 if any(result["wrong"] for result in results) else 0
    except Refused as error:
        if rank == 0:
            print(f"torch_peer: {error}", file=sys.stderr)
        return 2
    except Exception as error:  # the other ranks may wait for this one
        print(f"torch_peer: rank {rank}: {error!r}", file=sys.stderr, flush=True)
        os._exit(3)


if __name__ == "__main__":
    sys.exit(main())
