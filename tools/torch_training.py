#!/usr/bin/env python3
"""A small transformer trained by PyTorch, and a graph of mixed collectives: time and results.

    torchrun --nproc-per-node 2 tools/torch_training.py [--json FILE]             # on NCCL
    PLAIT_NCCL_SO=build-cuda/lib/libnccl.so.2 torchrun --nproc-per-node 2 tools/torch_training.py

Rank 0 prints, for `ddp` and `fsdp2`, the median time of a step and the losses of all steps, and for
`graph` the time of one of a thousand collectives that are replayed as a CUDA graph, with a sum over
the bits of their results. Two ranks have the same losses and bits on every library, because a sum
of two numbers has no order. The model: 6 layers, width 768, 12 heads, 512 tokens, batches of 8 per
rank, products in bfloat16, seeded data, PyTorch's deterministic algorithms.
"""
import argparse
import ctypes
import datetime
import json
import os
import statistics
import time

if os.environ.get("PLAIT_NCCL_SO"):
    ctypes.CDLL(os.environ["PLAIT_NCCL_SO"], ctypes.RTLD_GLOBAL)
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # products with the same bits each time
os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
import torch  # pylint: disable=wrong-import-position
import torch.distributed as dist  # pylint: disable=wrong-import-position
from torch import nn  # pylint: disable=wrong-import-position
from torch.distributed.fsdp import (  # pylint: disable=wrong-import-position
    MixedPrecisionPolicy, fully_shard)

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
WORDS, WIDTH, HEADS, LAYERS, TOKENS, BATCH = 8192, 768, 12, 6, 512, 8
STEPS, WARM = 40, 10


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mix, self.join = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2)
                   for part in self.mix(self.before(x)).chunk(3, dim=-1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.join(mixed.transpose(1, 2).flatten(-2))
        return x + self.narrow(nn.functional.gelu(self.wide(self.after(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.end, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words):
        x = self.words(words) + self.places.weight
        for layer in self.layers:
            x = layer(x)
        return self.out(self.end(x))


def train(kind):
    torch.manual_seed(1)
    model = Model().cuda()
    if kind == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    else:
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for layer in model.layers:
            fully_shard(layer, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    data = torch.Generator().manual_seed(1000 + RANK)
    batches = [torch.randint(WORDS, (BATCH, TOKENS), generator=data).cuda() for _ in range(4)]
    losses, times = [], []
    for step in range(STEPS):
        words = batches[step % len(batches)]
        torch.cuda.synchronize()
        begin = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16, enabled=kind == "ddp"):
            scores = model(words)
        loss = nn.functional.cross_entropy(scores[:, :-1].flatten(0, 1).float(),
                                           words[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
        losses.append(loss.item())
    return {"step_ms": 1e3 * statistics.median(times[WARM:]), "losses": losses}


def mixed_calls(count=1000):
    """Collectives of 1 KB to 1 MB, in turn, captured once and replayed."""
    calls = []
    data = torch.Generator().manual_seed(7)
    for i in range(count):
        size = 256 << int(torch.randint(11, (1,), generator=data))  # of float32, a power of two
        mine = torch.randn(size, generator=data).cuda() * (RANK + 1)
        kind = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")[i % 4]
        wide, narrow = WORLD * size, size // WORLD
        result = torch.empty({"all_gather": wide, "reduce_scatter": narrow}.get(kind, size)).cuda()
        calls.append((kind, mine, result))

    def make_all():
        for kind, mine, result in calls:
            if kind == "all_gather":
                dist.all_gather_into_tensor(result, mine)
            elif kind == "reduce_scatter":
                dist.reduce_scatter_tensor(result, mine)
            else:
                result.copy_(mine)
                if kind == "all_reduce":
                    dist.all_reduce(result)
                else:
                    dist.broadcast(result, src=0)

    make_all()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        make_all()
    for _, _, result in calls:
        result.zero_()
    times = []
    for _ in range(12):
        dist.barrier()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / count)
    bits = sum(int(result.view(torch.int32).long().sum()) for _, _, result in calls)
    return {"call_us": 1e6 * statistics.median(times[2:]), "bits": bits & (1 << 64) - 1}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", help="a file for the result")
    options = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.use_deterministic_algorithms(True)
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    with open("/proc/self/maps", encoding="utf-8") as maps:
        libraries = sorted({line.split()[-1] for line in maps if "libnccl.so" in line})
    result = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "device": torch.cuda.get_device_name(), "ranks": WORLD, "torch": torch.__version__,
              "library": libraries, "ddp": train("ddp"), "fsdp2": train("fsdp2"),
              "graph": mixed_calls()}
    dist.destroy_process_group()
    if RANK == 0:
        text = json.dumps(result, indent=1) + "\n"
        print(text, flush=True)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                file.write(text)


if __name__ == "__main__":
    main()
