"""Rules that hold for every kernel on gfx90a and gfx942.

The words of backends/gpu/gpu_words.hpp, seen from the machine code:

  signal   write the caches back at system scope, wait until that is done, store the flag
  wait     spin on loads at system scope, then invalidate the caches at system scope, then load the
           data
  sync     wait for the own stores, then the barrier

gcn_spins.py tells scopes and spins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Iterator, Optional

from gcn_spins import (
    SYSTEM,
    is_invalidation,
    is_part_of_invalidation,
    is_plain_load,
    is_scoped_load,
    is_write_back,
    polls,
    spins,
    waits,
)
from machine_code import Function, Instruction

ARCHITECTURES = ("gfx90a", "gfx942")


@dataclass(frozen=True)
class Finding:
    rule: str
    arch: str
    kernel: str
    why: str
    where: Optional[Instruction] = None

    def __str__(self) -> str:
        at = f"\n    {self.where}" if self.where else ""
        return f"{self.arch} {self.kernel}: {self.rule}: {self.why}{at}"


Problem = tuple[Optional[int], str]  # place in the function, and why it is wrong
Rule = Callable[[Function], Iterator[Problem]]


# The rules. Each yields what is wrong with a function.


def scratch(function: Function) -> Iterator[Problem]:
    if function.is_kernel:
        for key in ("private_segment_fixed_size", "vgpr_spill_count"):
            if function.metadata.get(key) != "0":
                yield (
                    None,
                    (
                        f".{key} is {function.metadata.get(key, 'missing')}, not 0: the kernel"
                        " needs a stack, which lies in memory"
                    ),
                )
    for i, instruction in enumerate(function.instructions):
        moves_data = instruction.is_load or instruction.is_store
        if moves_data and instruction.name.startswith(
            ("scratch_", "buffer_")
        ):  # no kernel has a buffer of its own
            yield (
                i,
                (
                    "an access to scratch memory: something is spilled, or an array is indexed at"
                    " run time"
                ),
            )
        if instruction.is_call:
            yield i, "a call, which needs a stack: a device function was not inlined"


def flat(function: Function) -> Iterator[Problem]:
    for i in function.all(lambda instruction: instruction.name.startswith("flat_")):
        yield (
            i,
            (
                "the compiler doesn't know that this is global memory: it waits for LDS too, and"
                " may be out of order with global accesses"
            ),
        )


def release(function: Function) -> Iterator[Problem]:
    if function.arch != "gfx90a":  # where a flag looks like any store
        for i in function.all(lambda x: x.named("global_store_dword") and SYSTEM <= x.bits):
            yield from unreleased(function, i)
    for i in function.all(is_write_back):
        yield from unfinished_write_back(function, i)


def fence(function: Function) -> Iterator[Problem]:
    """As `release`, for a kernel whose write-back comes before any number of stores of data."""
    write_backs = function.all(is_write_back)
    if not write_backs:
        yield None, "no write-back (buffer_wbl2): the kernel has no fence"
    for i in write_backs:
        yield from overtaken_write_back(function, i)


def overtaken_write_back(function: Function, write_back: int) -> Iterator[Problem]:
    """Looks forward from a write-back, which may be the end of a loop."""
    for i in function.after(write_back):
        instruction = function.instructions[i]
        if instruction.waits_for_memory:
            return
        if instruction.is_vector_memory:
            yield (
                write_back,
                (
                    f"no s_waitcnt vmcnt(0) between this write-back and {instruction}: it may"
                    " overtake what is written back"
                ),
            )
            return


def unreleased(function: Function, flag: int) -> Iterator[Problem]:
    """Looks back from a flag."""
    waited = False
    for i in function.before(flag):
        instruction = function.instructions[i]
        if instruction.is_store:
            yield (
                flag,
                f"{instruction} stands between the flag and its write-back, which leaves it out",
            )
            return
        waited = waited or instruction.waits_for_memory
        if is_write_back(instruction):
            if function.arch != "gfx90a" and not SYSTEM <= instruction.bits:
                yield (
                    flag,
                    (
                        "the write-back before this flag has less than system scope: a peer may see"
                        " the flag and old data"
                    ),
                )
            elif not waited:
                yield (
                    flag,
                    (
                        "no s_waitcnt vmcnt(0) between the write-back and this flag: a peer may see"
                        " the flag and old data"
                    ),
                )
            return
    yield (
        flag,
        (
            "no write-back (buffer_wbl2) on every way to this flag: a peer may see the flag and old"
            " data"
        ),
    )


def unfinished_write_back(function: Function, write_back: int) -> Iterator[Problem]:
    """Looks forward from a write-back."""
    waited = False
    for i in function.after(write_back):
        instruction = function.instructions[i]
        waited = waited or instruction.waits_for_memory
        if not instruction.is_vector_memory:
            continue
        if not waited:
            yield (
                write_back,
                (
                    f"no s_waitcnt vmcnt(0) between this write-back and {instruction}: it may"
                    " overtake what is written back"
                ),
            )
        elif not is_arrival(instruction) and (
            not instruction.named("global_store_dword")
            or (function.arch != "gfx90a" and not SYSTEM & instruction.bits)
        ):
            yield (
                write_back,
                f"after this write-back comes {instruction}, and not the flag that it was made for",
            )
        return
    yield (
        write_back,
        (
            "no flag is stored after this write-back, on every way: a release without its store, or"
            " a fence that is not needed"
        ),
    )


def acquire(function: Function) -> Iterator[Problem]:
    for i in function.all(is_part_of_invalidation):
        if function.instructions[i].named("buffer_invl2"):
            after = next(function.after(i), None)
            if after is None or not function.instructions[after].named("buffer_wbinvl1_vol"):
                yield (
                    i,
                    "the L2 is invalidated, but not the L1 with it: loads may still find old data",
                )
        elif not is_invalidation(function, i):
            yield (
                i,
                (
                    "an invalidation of less than system scope: loads may find data from before a"
                    " peer's release"
                ),
            )
    for wait in waits(function):
        looks = polls(function, wait)
        reached = function.reach(looks, lambda i: is_invalidation(function, i))
        early = sorted(
            i for i in reached - wait if is_plain_load(function, function.instructions[i])
        )
        if early:
            yield (
                early[0],
                (
                    f"a way leads here from a look at a flag, {function.instructions[looks[0]]},"
                    " that invalidates no cache at system scope: the load may find data from"
                    " before the peer's release"
                ),
            )


def signals_unheard(function: Function) -> Iterator[Problem]:
    """Not for probes, some of which do nothing but signal."""
    is_claim = lambda i: function.instructions[i].named("global_atomic_cmpswap")  # noqa: E731
    unclaimed = {0} | function.reach(
        [0], is_claim
    )  # a flag after the claim is a diagnostic record's, for the host
    signals = [i for i in sorted(unclaimed) if is_write_back(function.instructions[i])]
    inlined = function.is_kernel and not function.all(lambda x: x.is_call)
    if (
        inlined
        and signals
        and not any(is_invalidation(function, i) for i in range(len(function.instructions)))
    ):
        yield (
            signals[0],
            (
                "the kernel signals, but nowhere invalidates its caches: it can't have waited for a"
                " signal of its peers"
            ),
        )


def scope(function: Function) -> Iterator[Problem]:
    for i, instruction in enumerate(function.instructions):
        if instruction.is_atomic:
            own = (
                "_atomic_cmpswap" in instruction.name
                or is_count(instruction)
                or is_arrival(instruction)
            )
            if not own and "sc1" not in instruction.bits:
                yield (
                    i,
                    (
                        "an atomic operation of agent scope or less; only the rank's own `claimed`"
                        " word, a compare-and-swap, and the counts of its blocks may have one"
                    ),
                )
        elif (instruction.is_load or instruction.is_store) and len(SYSTEM & instruction.bits) == 1:
            yield (
                i,
                (
                    "an access of workgroup or agent scope: a cache of this GPU may answer it or"
                    " keep it, where a peer is involved"
                ),
            )
    for wait in waits(function):
        looks = polls(function, wait)
        if not looks:
            yield min(wait), "this spin does not look at a flag with a load of system scope"
        for i in sorted(wait | set(looks)):
            if is_plain_load(function, function.instructions[i]) and not function.instructions[
                i
            ].name.startswith("flat"):
                yield i, "a spin looks with a plain load: a cache may answer it for ever"


def is_count(instruction: Instruction) -> bool:
    """An addition to the blocks' log (backends/device/block_log.hpp), for which no code waits.

    gfx90a has no scope for those.
    """
    return (
        instruction.named("global_atomic_add_x2")
        and "glc" not in instruction.bits
        and "sc0" not in instruction.bits
    )


def is_arrival(instruction: Instruction) -> bool:
    """A block that counts itself among those of its rank (`arrive` of backends/hip/gcn.hpp)."""
    return instruction.named("global_atomic_inc")


def barrier(function: Function) -> Iterator[Problem]:
    """The wait also covers an invalidation before the barrier.

    The other waves' loads after the barrier must not be faster than the invalidation.
    """
    is_waited = lambda i: function.instructions[i].waits_for_memory  # noqa: E731
    started = function.all(lambda x: x.is_store or x.is_call or is_part_of_invalidation(x))
    unwaited = function.reach(started, is_waited) | function.reach([0], is_waited) | {0}
    for i in sorted(unwaited):
        if function.instructions[i].named("s_barrier"):
            yield (
                i,
                (
                    "a way leads here without an s_waitcnt vmcnt(0) after the last store or"
                    " invalidation: what other waves do after the barrier, as a release or a load,"
                    " does not wait for it"
                ),
            )


EVERYWHERE: list[tuple[str, Rule]] = [
    ("scratch", scratch),
    ("flat", flat),
    ("release", release),
    ("acquire", acquire),
    ("scope", scope),
    ("barrier", barrier),
]


# How wide the accesses to data are, by kernel family.


WIDE = ("_load_dwordx4", "_store_dwordx4")


def moves_packs(function: Function) -> Iterator[Problem]:
    loops = function.loops(lambda i: function.instructions[i].named("s_barrier"))
    if not any(
        all(any(function.instructions[i].name.endswith(wide) for i in loop) for wide in WIDE)
        for loop in loops
    ):
        yield None, "no loop loads and stores by dwordx4: packs don't move by 16 bytes"


LOG_STORES = 6  # of the blocks' log, which stores by 8 bytes as well: two times, and a span


def moves_packets(function: Function) -> Iterator[Problem]:
    if len(function.all(lambda x: is_packet_store(function, x))) <= LOG_STORES:
        yield None, "no global_store_dwordx2 at system scope: packets are not stored by 8 bytes"
    if not spins(function):
        yield None, "nothing is polled: no loop has an s_sleep"
    for spin in spins(function):
        if (
            sum(
                is_scoped_load(function, function.instructions[i], "global_load_dwordx2")
                for i in spin
            )
            < 2
        ):
            yield (
                min(spin),
                "this spin does not poll both halves of a packet with global_load_dwordx2",
            )


def is_packet_store(function: Function, instruction: Instruction) -> bool:
    return instruction.named("global_store_dwordx2") and (
        function.arch == "gfx90a" or SYSTEM <= instruction.bits
    )


def findings_of(function: Function, rules: list[tuple[str, Rule]]) -> Iterator[Finding]:
    """One for each way to be wrong; it names the first place and counts the others."""
    kernel = function.name if function.is_kernel else f"function {function.name}"
    for name, rule in rules:
        places: dict[str, list[Optional[int]]] = {}
        for place, why in rule(function):
            places.setdefault(why, []).append(place)
        for why, at in places.items():
            more = f" (and {len(at) - 1} more)" if len(at) > 1 else ""
            yield Finding(
                name,
                function.arch,
                kernel,
                why + more,
                None if at[0] is None else function.instructions[at[0]],
            )
