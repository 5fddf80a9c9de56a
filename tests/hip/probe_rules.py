"""Rules for the kernels of tests/words/probes.hpp.

Each of these is one word of backends/device/device.hpp, so the whole sequence is known.
"""

from __future__ import annotations

import re
from typing import Iterator

from gcn_rules import WIDE, Finding, Problem, Rule, moves_packs, unreleased
from gcn_spins import (
    has_scope,
    is_invalidation,
    is_plain_load,
    is_scoped_load,
    polls,
    spins,
    waits,
)
from machine_code import Function, Instruction


def offset(access: Instruction) -> int:
    found = re.search(r"offset:(-?\d+)", access.operands)
    return int(found[1]) if found else 0


def data_stores(function: Function) -> list[int]:
    """All stores but those of a diagnostic record, which follow the claim of it."""
    is_claim = lambda i: "_atomic_cmpswap" in function.instructions[i].name  # noqa: E731
    unclaimed = {0} | function.reach([0], is_claim)
    return [i for i in sorted(unclaimed) if function.instructions[i].is_store and not is_claim(i)]


def signal_is_a_release(function: Function) -> Iterator[Problem]:
    flags = function.all(lambda x: x.named("global_store_dword"))
    data = function.all(lambda x: x.named("global_store_dwordx4"))
    if len(flags) != 1 or not data:
        yield (
            None,
            "expected global_store_dwordx4 of the data, and one global_store_dword: the flag",
        )
        return
    yield from unreleased(function, flags[0])
    if flags[0] not in function.reach(data, lambda _: False):
        yield flags[0], "the data are not stored before the flag"
    if flags[0] in function.reach(data, lambda i: function.instructions[i].named("s_barrier")):
        yield (
            flags[0],
            (
                "a way leads from the data to the flag that passes no barrier: other waves may not"
                " have stored theirs"
            ),
        )


def wait_is_an_acquire(function: Function) -> Iterator[Problem]:
    for wait in waits(function):
        looks = polls(function, wait)
        if not looks:
            continue  # a finding of its own
        unwaited = function.reach(looks, lambda i: function.instructions[i].waits_for_memory)
        for i in sorted(unwaited):
            if is_invalidation(function, i):
                yield i, "this invalidation may come before the last look at the flag is answered"
        # The path from the look to the load is checked for all kernels. Here: such a load exists.
        after = function.reach(
            [i for i in function.reach(looks, lambda _: False) if is_invalidation(function, i)],
            lambda _: False,
        )
        if sum(is_plain_load(function, function.instructions[i]) for i in after) < 2:
            yield (
                min(wait),
                (
                    "the two data are not loaded by vector loads after an invalidation: a scalar"
                    " load's cache is not invalidated"
                ),
            )


def spins_sleep(function: Function) -> Iterator[Problem]:
    if not spins(function):
        yield (
            None,
            (
                "no loop with an s_sleep: a spin would take issue slots from the waves that it"
                " waits for"
            ),
        )


def put_is_two_stores(function: Function) -> Iterator[Problem]:
    stores = [function.instructions[i] for i in data_stores(function)]
    if [x.name for x in stores] != ["global_store_dwordx2"] * 2 or abs(
        offset(stores[0]) - offset(stores[1])
    ) != 8:
        yield (
            None,
            "expected a packet's two halves by global_store_dwordx2 each, and got "
            + "; ".join(map(str, stores)),
        )
    elif function.arch != "gfx90a" and not all(has_scope(function, x) for x in stores):
        yield None, "a half of a packet is stored without a scope: it may stay in this GPU's cache"


def get_polls_halves(function: Function) -> Iterator[Problem]:
    for spin in spins(function):
        halves = sorted(
            i
            for i in spin
            if is_scoped_load(function, function.instructions[i], "global_load_dwordx2")
        )
        offsets = sorted(offset(function.instructions[i]) % 16 for i in halves)
        if offsets != [0, 0, 8, 8]:
            yield (
                min(spin),
                (
                    "the spin does not poll the halves of both packets, each by one"
                    " global_load_dwordx2 at system scope"
                ),
            )


def packs_move_whole(function: Function) -> Iterator[Problem]:
    yield from moves_packs(function)
    for i, instruction in enumerate(function.instructions):
        moves_data = is_plain_load(function, instruction) or instruction.name.startswith(
            "global_store"
        )
        if moves_data and not instruction.name.endswith(WIDE):
            yield i, "packs move by something else than 16 bytes"


PROBES: dict[str, list[tuple[str, Rule]]] = {
    "probe_signal": [("release", signal_is_a_release)],
    "probe_wait": [("spin", spins_sleep), ("acquire", wait_is_an_acquire)],
    "probe_all": [("spin", spins_sleep)],
    "probe_put": [("width", put_is_two_stores)],
    "probe_get": [("spin", spins_sleep), ("width", get_polls_halves)],
    "probe_copy": [("width", packs_move_whole)],
    "probe_reduce": [("width", packs_move_whole)],
    "probe_stage": [("width", packs_move_whole)],
}


def missing_probes(arch: str, kernels: list[Function]) -> list[Finding]:
    found = {kernel.symbol for kernel in kernels if kernel.arch == arch}
    return [Finding("probe", arch, name, "not there") for name in PROBES if name not in found]
