#!/usr/bin/env python3
"""A tour of torch.distributed over NCCL's interface, compared with gloo on the CPU.

torchrun --nproc-per-node N torch_tour.py [--eager] [--nonblocking]
"""
import os
import sys

import checks

checks.load()
import torch  # pylint: disable=wrong-import-position
import torch.distributed as dist  # pylint: disable=wrong-import-position

RANK, WORLD = checks.RANK, checks.WORLD
DEVICE = torch.device("cuda", checks.LOCAL_RANK % torch.cuda.device_count())
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.uint8, torch.int32, torch.int64]
OPS = {"sum": dist.ReduceOp.SUM, "product": dist.ReduceOp.PRODUCT, "max": dist.ReduceOp.MAX,
       "min": dist.ReduceOp.MIN}


def values(count, dtype, rank=RANK):
    """Small numbers that tell ranks apart and whose sums and products every type holds."""
    data = torch.arange(count, dtype=torch.int64) % 2 + 1 + (rank % 2)
    return data.to(dtype)


def on_device(tensor):
    return tensor.to(DEVICE)


def same(mine, reference):
    mine = mine.cpu()
    if mine.dtype.is_floating_point:
        return torch.allclose(mine.double(), reference.double(), rtol=1e-2, atol=1e-2)
    return torch.equal(mine, reference.to(mine.dtype))


class Tour:
    def __init__(self):
        self.gloo = dist.new_group(backend="gloo")
        self.checks = checks.Checks(self.merge)

    def merge(self, failures):
        count = torch.tensor([failures])
        dist.all_reduce(count, group=self.gloo)
        return int(count)

    def reference(self, tensor, op):
        """The all-reduce by gloo, in a type that it has and that does not round."""
        wide = tensor.double() if tensor.dtype.is_floating_point else tensor.long()
        dist.all_reduce(wide, op=op, group=self.gloo)
        return wide

    def all_reduce(self, dtype, op, count=1000):
        mine = on_device(values(count, dtype))
        dist.all_reduce(mine, op=OPS[op])
        return same(mine, self.reference(values(count, dtype), OPS[op]))

    def average(self, dtype):
        mine = on_device(values(100, dtype))
        dist.all_reduce(mine, op=dist.ReduceOp.AVG)
        total = self.reference(values(100, dtype), dist.ReduceOp.SUM)
        return same(mine, total / WORLD if dtype.is_floating_point else total // WORLD)

    def premul_sum(self, factor):
        make = dist._make_nccl_premul_sum  # pylint: disable=protected-access
        mine = on_device(values(100, torch.float32))
        dist.all_reduce(mine, op=make(factor))
        return same(mine, self.reference(values(100, torch.float32), dist.ReduceOp.SUM) * 0.5)

    def booleans(self):
        mine = torch.tensor([RANK == 0, False, True], device=DEVICE)
        dist.all_reduce(mine, op=dist.ReduceOp.MAX)
        return mine.tolist() == [True, False, True]

    def broadcast(self):
        mine = on_device(values(1001, torch.float32) + RANK)
        dist.broadcast(mine, src=WORLD - 1)
        return same(mine, values(1001, torch.float32, WORLD - 1) + WORLD - 1)

    def reduce(self):
        mine = on_device(values(1001, torch.int64))
        dist.reduce(mine, dst=0)
        expected = self.reference(values(1001, torch.int64), dist.ReduceOp.SUM)
        return RANK != 0 or same(mine, expected)

    def all_gather(self):
        out = [torch.empty(17, device=DEVICE) for _ in range(WORLD)]
        dist.all_gather(out, torch.full((17,), float(RANK), device=DEVICE))
        return all(bool((block == rank).all()) for rank, block in enumerate(out))

    def all_gather_uneven(self):
        out = [torch.empty(rank + 1, device=DEVICE) for rank in range(WORLD)]
        dist.all_gather(out, torch.full((RANK + 1,), float(RANK), device=DEVICE))
        return all(bool((block == rank).all()) for rank, block in enumerate(out))

    def all_gather_in_place(self):
        # Each rank's tensor lies elsewhere in its memory.
        whole = torch.empty(16 * RANK + 8 * WORLD, device=DEVICE)[16 * RANK:]
        own = whole[8 * RANK:8 * RANK + 8].fill_(RANK)
        dist.all_gather_into_tensor(whole, own)
        return whole.view(WORLD, 8).mean(1).tolist() == list(range(WORLD))

    def reduce_scatter(self):
        whole = torch.arange(8.0 * WORLD, device=DEVICE) + RANK
        own = torch.empty(8, device=DEVICE)
        dist.reduce_scatter_tensor(own, whole)
        first = WORLD * 8 * RANK + WORLD * (WORLD - 1) // 2
        return own[0].item() == first

    def reduce_scatter_in_place(self):
        whole = torch.full((8 * WORLD,), float(RANK), device=DEVICE)
        own = whole[8 * RANK:8 * RANK + 8]
        dist.reduce_scatter_tensor(own, whole, op=dist.ReduceOp.AVG)
        return bool((own == (WORLD - 1) / 2).all())

    def reduce_scatter_list(self):
        parts = [torch.full((5,), float(RANK + part), device=DEVICE) for part in range(WORLD)]
        own = torch.empty(5, device=DEVICE)
        dist.reduce_scatter(own, parts)
        return bool((own == WORLD * RANK + WORLD * (WORLD - 1) // 2).all())

    def all_to_all(self):
        own = torch.arange(WORLD, device=DEVICE) + 100 * RANK
        out = torch.empty_like(own)
        dist.all_to_all_single(out, own)
        return out.tolist() == [100 * peer + RANK for peer in range(WORLD)]

    def all_to_all_uneven(self):
        # Rank a sends b elements to rank b: nothing to rank 0.
        own = torch.full((WORLD * (WORLD - 1) // 2,), float(RANK), device=DEVICE)
        out = torch.empty(RANK * WORLD, device=DEVICE)
        dist.all_to_all_single(out, own, [RANK] * WORLD, list(range(WORLD)))
        return out.tolist() == [float(peer) for peer in range(WORLD) for _ in range(RANK)]

    def all_to_all_list(self):
        own = [torch.full((peer + 1,), float(RANK), device=DEVICE) for peer in range(WORLD)]
        out = [torch.empty(RANK + 1, device=DEVICE) for _ in range(WORLD)]
        dist.all_to_all(out, own)
        return all(bool((block == peer).all()) for peer, block in enumerate(out))

    def gather_and_scatter(self):
        own = torch.full((3,), float(RANK), device=DEVICE)
        out = [torch.empty(3, device=DEVICE) for _ in range(WORLD)] if RANK == 0 else None
        dist.gather(own, out, dst=0)
        back = torch.empty(3, device=DEVICE)
        dist.scatter(back, out, src=0)
        return torch.equal(own, back)

    def messages(self):
        if WORLD == 1:
            return True
        out = torch.empty(1000, device=DEVICE)
        if RANK % 2 == 0 and RANK + 1 < WORLD:
            dist.send(torch.full((1000,), float(RANK), device=DEVICE), RANK + 1)
            dist.recv(out, RANK + 1)
            return bool((out == RANK + 1).all())
        if RANK % 2 == 1:
            dist.recv(out, RANK - 1)
            dist.send(torch.full((1000,), float(RANK), device=DEVICE), RANK - 1)
            return bool((out == RANK - 1).all())
        return True

    def batch_of_messages(self):
        out = torch.empty(1 << 20, device=DEVICE)
        own = torch.full((1 << 20,), float(RANK), device=DEVICE)
        ends = [dist.P2POp(dist.isend, own, (RANK + 1) % WORLD),
                dist.P2POp(dist.irecv, out, (RANK - 1) % WORLD)]
        for work in dist.batch_isend_irecv(ends):
            work.wait()
        return bool((out == (RANK - 1) % WORLD).all())

    def coalesced(self):
        data = [on_device(values(10 + i, torch.float32)) for i in range(100)]
        manager = dist.distributed_c10d._coalescing_manager  # pylint: disable=protected-access
        with manager(device=DEVICE, async_ops=True) as work:
            for tensor in data:
                dist.all_reduce(tensor)
        work.wait()
        return all(same(tensor, self.reference(values(10 + i, torch.float32), OPS["sum"]))
                   for i, tensor in enumerate(data))

    def empty(self):
        nothing = torch.empty(0, device=DEVICE)
        dist.all_reduce(nothing)
        dist.broadcast(nothing, src=0)
        dist.all_gather_into_tensor(torch.empty(0, device=DEVICE), nothing)
        return self.all_reduce(torch.float32, "sum")

    def large(self):
        mine = torch.full((64 << 20,), float(RANK), device=DEVICE)
        dist.all_reduce(mine)
        return bool((mine == WORLD * (WORLD - 1) / 2).all())

    def odd_offset(self):
        # A view of bytes at an odd address, which is no address of a longer type.
        mine = torch.full((1001,), RANK, dtype=torch.uint8, device=DEVICE)[1:]
        dist.broadcast(mine, src=0)
        dist.all_reduce(mine)
        return bool((mine == 0).all())

    def float8(self):
        mine = torch.full((64,), float(RANK), device=DEVICE).to(torch.float8_e4m3fn)
        out = torch.empty(64 * WORLD, device=DEVICE, dtype=torch.float8_e4m3fn)
        dist.all_gather_into_tensor(out, mine)
        return out.float().view(WORLD, 64).mean(1).tolist() == list(range(WORLD))

    def objects(self):
        out = [None] * WORLD
        dist.all_gather_object(out, {"rank": RANK})
        said = [RANK]
        dist.broadcast_object_list(said, src=0, device=DEVICE)
        return out == [{"rank": rank} for rank in range(WORLD)] and said == [0]

    def groups(self):
        # Every rank takes part in making every group.
        for members in ([0], list(range(WORLD // 2 + 1)), list(range(WORLD))):
            group = dist.new_group(members)
            if RANK in members:
                mine = torch.ones(10, device=DEVICE)
                dist.all_reduce(mine, group=group)
                if mine[0].item() != len(members):
                    return False
                dist.destroy_process_group(group)
        return True

    def split(self):
        if not hasattr(dist, "split_group") or "--eager" not in sys.argv:
            return True
        half = [[rank for rank in range(WORLD) if rank % 2 == side] for side in (0, 1)]
        group = dist.split_group(split_ranks=[ranks for ranks in half if ranks])
        mine = torch.ones(1, device=DEVICE)
        dist.all_reduce(mine, group=group)
        return mine.item() == len(half[RANK % 2])

    def side_stream(self):
        stream = torch.cuda.Stream()
        mine = on_device(values(1000, torch.float32))
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            work = dist.all_reduce(mine, async_op=True)
            work.wait()
        torch.cuda.current_stream().wait_stream(stream)
        return same(mine, self.reference(values(1000, torch.float32), OPS["sum"]))

    def graph(self, mode):
        mine = torch.zeros(1000, device=DEVICE)
        dist.all_reduce(mine)  # warms up
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode=mode):
            mine += 1
            dist.all_reduce(mine)
        for _ in range(3):
            graph.replay()
        torch.cuda.synchronize()
        expected = 0
        for _ in range(3):
            expected = (expected + 1) * WORLD
        return bool((mine == expected).all())

    def many_calls(self):
        mine = torch.ones(64, device=DEVICE)
        for _ in range(2000):
            dist.all_reduce(mine)
            mine.div_(WORLD)
        return bool((mine == 1).all())

    def run(self):
        self.checks.plait_is_loaded()
        for dtype in FLOATS + INTEGERS:
            for op in OPS:
                self.checks.run(f"all_reduce {dtype} {op}", lambda: self.all_reduce(dtype, op))
        for dtype in FLOATS + [torch.int32]:
            self.checks.run(f"all_reduce {dtype} avg", lambda: self.average(dtype))
        self.checks.run("premul_sum by a number", lambda: self.premul_sum(0.5))
        self.checks.run("premul_sum by a tensor",
                        lambda: self.premul_sum(torch.tensor([0.5], device=DEVICE)))
        names = ["booleans", "broadcast", "reduce", "all_gather", "all_gather_uneven",
                 "all_gather_in_place", "reduce_scatter", "reduce_scatter_in_place",
                 "reduce_scatter_list", "all_to_all", "all_to_all_uneven", "all_to_all_list",
                 "gather_and_scatter", "messages", "batch_of_messages", "coalesced", "empty",
                 "large", "odd_offset", "float8", "objects", "groups", "split", "side_stream",
                 "many_calls"]
        for name in names:
            self.checks.run(name, getattr(self, name))
        for mode in ("thread_local", "global"):
            self.checks.run(f"graph, capture mode {mode}", lambda: self.graph(mode))
        self.checks.run("barrier", lambda: dist.barrier(device_ids=[DEVICE.index]) is None)


def main():
    torch.cuda.set_device(DEVICE)
    options = dist.ProcessGroupNCCL.Options()
    if "--nonblocking" in sys.argv:
        os.environ["TORCH_NCCL_USE_COMM_NONBLOCKING"] = "1"
        options.config.blocking = 0
    dist.init_process_group("nccl", pg_options=options,
                            device_id=DEVICE if "--eager" in sys.argv else None)
    tour = Tour()
    tour.run()
    tour.checks.run("destroy_process_group", lambda: dist.barrier(tour.gloo) is None)
    dist.destroy_process_group()
    tour.checks.end()


if __name__ == "__main__":
    main()
