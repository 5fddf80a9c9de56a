#!/usr/bin/env python3
"""JAX's collectives over NCCL's interface, compared with NumPy.

python jax_collectives.py: one process drives all GPUs.
torchrun --nproc-per-node N jax_collectives.py: one GPU per process. torchrun only starts them.
"""
import os

import checks

checks.load()
import jax  # pylint: disable=wrong-import-position
import jax.numpy as jnp  # pylint: disable=wrong-import-position
import numpy  # pylint: disable=wrong-import-position
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # pylint: disable=wrong-import-position

COUNT = 1024


def connect():
    if checks.WORLD == 1:
        return
    gpus = len([name for name in os.listdir("/proc/driver/nvidia/gpus")])
    jax.distributed.initialize(f"127.0.0.1:{int(os.environ['MASTER_PORT']) + 1}", checks.WORLD,
                               checks.RANK, local_device_ids=[checks.LOCAL_RANK % gpus])


class Collectives:
    def __init__(self):
        self.ranks = jax.device_count()
        self.mesh = Mesh(numpy.array(jax.devices()), ("x",))
        self.all = (numpy.arange(self.ranks * COUNT, dtype=numpy.float32) % 97).reshape(
            self.ranks, COUNT)
        sharding = NamedSharding(self.mesh, PartitionSpec("x", None))
        self.data = jax.make_array_from_callback(self.all.shape, sharding,
                                                 lambda index: self.all[index])

    def mapped(self, body, out=PartitionSpec("x", None)):
        shard_map = getattr(jax, "shard_map", None)
        if shard_map is None:
            # pylint: disable-next=import-outside-toplevel
            from jax.experimental.shard_map import shard_map
        return jax.jit(shard_map(body, mesh=self.mesh, in_specs=PartitionSpec("x", None),
                                 out_specs=out))(self.data)

    def same(self, result, expected):
        """Each process looks at its own shards."""
        return all(numpy.allclose(numpy.asarray(shard.data), expected[shard.index], rtol=1e-5)
                   for shard in result.addressable_shards)

    def psum(self):
        result = self.mapped(lambda x: jax.lax.psum(x, "x"))
        return self.same(result, numpy.tile(self.all.sum(0), (self.ranks, 1)))

    def pmax(self):
        result = self.mapped(lambda x: jax.lax.pmax(x, "x"))
        return self.same(result, numpy.tile(self.all.max(0), (self.ranks, 1)))

    def bfloat16(self):
        result = self.mapped(lambda x: jax.lax.psum(x.astype(jnp.bfloat16), "x").astype(
            jnp.float32))
        expected = numpy.tile(self.all.sum(0), (self.ranks, 1))
        return all(numpy.allclose(numpy.asarray(shard.data), expected[shard.index], rtol=2e-2)
                   for shard in result.addressable_shards)

    def all_gather(self):
        result = self.mapped(lambda x: jax.lax.all_gather(x, "x").reshape(1, -1))
        return self.same(result, numpy.tile(self.all.ravel(), (self.ranks, 1)))

    def reduce_scatter(self):
        result = self.mapped(lambda x: jax.lax.psum_scatter(x, "x", scatter_dimension=1,
                                                            tiled=True))
        return self.same(result, self.all.sum(0).reshape(self.ranks, -1))

    def all_to_all(self):
        result = self.mapped(lambda x: jax.lax.all_to_all(
            x.reshape(self.ranks, -1), "x", split_axis=0, concat_axis=0, tiled=True).reshape(1, -1))
        blocks = self.all.reshape(self.ranks, self.ranks, -1)
        return self.same(result, blocks.transpose(1, 0, 2).reshape(self.ranks, -1))

    def permute(self):
        turn = [(rank, (rank + 1) % self.ranks) for rank in range(self.ranks)]
        result = self.mapped(lambda x: jax.lax.ppermute(x, "x", turn))
        return self.same(result, numpy.roll(self.all, 1, axis=0))

    def many(self):
        def body(x):
            for _ in range(20):
                x = jax.lax.psum(x, "x") / self.ranks
            return x
        result = self.mapped(body)
        return self.same(result, numpy.tile(self.all.mean(0), (self.ranks, 1)))


def main():
    connect()
    collectives = Collectives()
    tests = checks.Checks()
    for name in ("psum", "pmax", "bfloat16", "all_gather", "reduce_scatter", "all_to_all",
                 "permute", "many"):
        tests.run(name, getattr(collectives, name))
    tests.plait_is_loaded()
    if checks.WORLD > 1:
        jax.distributed.shutdown()
    tests.end()


if __name__ == "__main__":
    main()
