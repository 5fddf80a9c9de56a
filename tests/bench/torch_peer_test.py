#!/usr/bin/env python3
"""torch_peer_test.py TORCH_PEER: what tools/torch_peer.py does around PyTorch: its flags, its
clock, its statistics and its file. A backend in Python stands for the GPUs."""
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SCRIPT = sys.argv[1]
sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("torch_peer", SCRIPT)
peer = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peer)


class Backend:
    """Two ranks whose calls take 2 us and 1 us per KB; each repeat takes a microsecond longer."""
    rank, ranks, kind, devices, version = 0, 2, "cuda", ["GPU", "GPU"], "2.11.0"

    def __init__(self, wrong=0):
        self.wrong, self.now, self.replays, self.done, self.synchronized = wrong, 0.0, 0, [], 0

    def clock(self):
        return self.now

    def note(self, text):
        pass

    def slowest(self, microseconds):
        return microseconds + 10  # the other rank

    def synchronize(self):
        self.synchronized += 1

    def line_up(self):
        pass

    def allocate(self, element_type, size):
        self.done.append((element_type, size))

    def call(self, operation, size):
        def run():
            self.done.append(operation)
            self.now += (2 + size / 1024) * 1e-6
            return size
        return run

    def capture(self, call, calls):
        self.replays = 0
        return call(), calls

    def replay(self, graph):
        self.replays += 1
        size, calls = graph
        return calls * (2 + size / 1024) + self.replays

    def count_wrong(self, call, size):
        call()
        return self.wrong


def measured(backend, *words):
    options = peer.parse(list(words))
    return peer.measure(backend, options, peer.Timer(backend, options, backend.clock)), options


def refused(action):
    try:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            action()
    except (SystemExit, peer.Refused) as error:
        return said.getvalue() or str(error)
    raise AssertionError("not refused")


# Flags.
options = peer.parse("-b 1K -e 64K -f 8 -d f32,bf16 -n 20".split())
assert list(peer.sizes(options)) == [1024, 8192, 65536], options
assert options.type == ["f32", "bf16"] and options.iterations == 20
assert list(peer.sizes(peer.parse([])))[-1] == 1 << 30
assert "'f16' is none of bf16, f32" in refused(lambda: peer.parse(["-d", "f16"]))
assert "'1X' is no number of bytes" in refused(lambda: peer.parse(["-b", "1X"]))
assert "-b is more than -e" in refused(lambda: peer.parse(["-b", "2G"]))
assert "multiples of 16" in refused(lambda: measured(Backend(), "-b", "1000", "-e", "1000"))

# Statistics: as those of plait-bench.
assert peer.quantile([80, 900, 100], 0.5) == 100
assert peer.quantile([4, 1, 2, 3], 0.5) == 2.5
assert peer.quantile([1, 2], 0.95) == 1.95
assert peer.quantile([7], 0.99) == 7

# The clock: 50 ms per repeat, but between 3 and 400 calls, and 200 of a slow small message.
results, _ = measured(Backend(), "-b", "1K", "-e", "256M", "-f", "512")
assert [result["calls"] for result in results] == [400, 400, 96, 96, 3, 3], results
slow = Backend()
slow.slowest = lambda microseconds: microseconds + 3000
results, _ = measured(slow, "-b", "16", "-e", "256K", "-f", "16384", "--in-place", "1")
assert [result["calls"] for result in results] == [200, 200], results
results, _ = measured(Backend(), "-b", "1K", "-e", "1K", "-n", "10", "--repeats", "5", "--in-place",
                      "0")
assert [round(results[0][key], 9) for key in ("time_us", "time_us_min", "time_us_max")] == [
    4.4, 4.2, 4.6], results  # 3 us a call; the first launch is not counted; the other rank's 10 us
assert (results[0]["samples"], results[0]["samples_of"]) == (5, "repeats"), results
assert round(results[0]["time_us_mean"], 9) == 4.4, results
assert round(results[0]["time_us_stddev"], 6) == 0.158114, results
assert round(results[0]["busbw"], 6) == round(1024 / 4400, 6), results

backend = Backend()
measured(backend, "-b", "1K", "-e", "1K", "-n", "1", "-w", "3", "--in-place", "1", "-d", "bf16")
assert backend.done == [("bf16", 1024)] + ["two_shot_all_reduce_"] * 5, backend.done
backend = Backend()
measured(backend, "-b", "1K", "-e", "1K", "-n", "1", "-w", "0", "--in-place", "0")
assert set(backend.done[1:]) == {"one_shot_all_reduce_out"}, backend.done

with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    # The file, with a machine of its own.
    results, _ = measured(Backend(wrong=3), "-b", "1K", "-e", "2K", "-f", "2", "-n", "2", "--json",
                          str(folder / "own.json"))
    file = json.loads((folder / "own.json").read_text())
    assert file["results"] == results and len(results) == 4
    assert {result["wrong"] for result in results} == {3}
    assert file["machine"]["devices"] == ["GPU", "GPU"] and file["machine"]["ranks"] == 2
    assert file["machine"]["torch_version"] == "2.11.0"
    assert (folder / "own.json").read_text().count("\n{\"name\":\"peer:torch-symmetric\"") == 4
    assert os.listdir(folder) == ["own.json"]

    # With the machine of a file of plait-bench.
    machine = {"backend": "cuda", "devices": ["GPU", "GPU"], "ranks": 2, "plait_version": "1.2.3",
               "ceilings": {"push_gbs": 400.0, "pull_gbs": 300.0, "copy_engine_gbs": None}}
    bench = folder / "bench.json"
    bench.write_text(json.dumps({"machine": machine, "results": []}))
    results, _ = measured(Backend(), "-b", "1G", "-e", "1G", "-n", "1", "--machine", str(bench),
                          "--json", str(folder / "with.json"))
    made = json.loads((folder / "with.json").read_text())["machine"]
    assert made["plait_version"] == "1.2.3" and made["ceilings"] == machine["ceilings"], made
    assert results[0]["percent_of_ceiling"] == 100 * results[0]["busbw"] / 400, results
    for broken in ({**machine, "ranks": 4}, {**machine, "devices": ["other", "GPU"]}):
        bench.write_text(json.dumps({"machine": broken}))
        assert "and this run 2 on" in refused(
            lambda: measured(Backend(), "--machine", str(bench)))
    bench.write_text("{")
    assert "--machine" in refused(lambda: measured(Backend(), "--machine", str(bench)))

# Launchers.
mpi = peer.Launched({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4",
                     "OMPI_COMM_WORLD_LOCAL_RANK": "1", "PMIX_NAMESPACE": "a"})
assert (mpi.rank, mpi.ranks, mpi.local_rank) == (3, 4, 1)
assert mpi.environment["MASTER_ADDR"] == "127.0.0.1"
assert 20000 <= int(mpi.environment["MASTER_PORT"]) < 30000
run = peer.Launched({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "host",
                     "MASTER_PORT": "7"})
assert (run.environment["MASTER_ADDR"], run.environment["MASTER_PORT"]) == ("host", "7")
assert "mpirun, torchrun or srun" in refused(lambda: peer.Launched({}))

# The program, where no launcher has started it.
clean = {name: value for name, value in os.environ.items()
         if not name.startswith(("OMPI_", "SLURM_")) and name not in ("RANK", "WORLD_SIZE")}
done = subprocess.run([SCRIPT], capture_output=True, text=True, env=clean, timeout=60)
assert done.returncode == 2, done
assert done.stderr == "torch_peer: start it with mpirun, torchrun or srun\n", done

# Nothing that could make a multicast object is called.
code = pathlib.Path(SCRIPT).read_text().partition('"""')[2].partition('"""')[2]
assert "multimem" not in code and 'os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] = "1"' in code
assert code.index("TORCH_SYMM_MEM_DISABLE_MULTICAST") < code.index("import torch\n")
print("passed")
