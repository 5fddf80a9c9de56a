"""Instructions of gfx90a and gfx942 by their scope, and the loops in which they look at a flag.

Scopes: gfx942 writes them into each access as sc0 and sc1 (neither: wavefront, sc0: workgroup, sc1:
agent, both: system). gfx90a has a bit for loads only, glc, which agent and system scope share.
There the instructions around an access must tell the rest: a flag that is stored with no write-back
at all looks like any store, and only the probes and the same kernel on gfx942 show it.
"""

from __future__ import annotations

import functools
import re

from machine_code import Function, Instruction, registers

SYSTEM = {"sc0", "sc1"}


# Kinds of instructions.


def has_scope(function: Function, access: Instruction) -> bool:
    """A load of more than wavefront scope; of a store, gfx942 alone can tell."""
    return bool(access.bits & ({"glc"} if function.arch == "gfx90a" else SYSTEM))


def is_plain_load(function: Function, instruction: Instruction) -> bool:
    return instruction.name.startswith(("global_load", "flat_load")) and not has_scope(
        function, instruction
    )


def is_scoped_load(function: Function, instruction: Instruction, *names: str) -> bool:
    return instruction.named(*names) and has_scope(function, instruction)


def is_write_back(instruction: Instruction) -> bool:
    return instruction.named("buffer_wbl2")


def is_invalidation(function: Function, i: int) -> bool:
    """The whole of it, at system scope."""
    instruction = function.instructions[i]
    if function.arch == "gfx90a":
        before = next(function.before(i), None)
        return (
            instruction.named("buffer_wbinvl1_vol")
            and before is not None
            and function.instructions[before].named("buffer_invl2")
        )
    return instruction.named("buffer_inv") and SYSTEM <= instruction.bits


def is_part_of_invalidation(instruction: Instruction) -> bool:
    return instruction.named("buffer_inv", "buffer_invl2", "buffer_wbinvl1", "buffer_wbinvl1_vol")


# Spins.


def is_cut(function: Function, i: int) -> bool:
    """No spin goes past this."""
    return function.instructions[i].named("s_barrier") or is_invalidation(function, i)


@functools.lru_cache(maxsize=1)
def spins(function: Function) -> list[set[int]]:
    """Loops that poll: they sleep, and meet no barrier and no invalidation on their way round."""
    loops = function.loops(lambda i: is_cut(function, i))
    return [loop for loop in loops if any(function.instructions[i].named("s_sleep") for i in loop)]


def polls_packets(function: Function, spin: set[int]) -> bool:
    return any(
        is_scoped_load(function, function.instructions[i], "global_load_dwordx2") for i in spin
    )


def waits(function: Function) -> list[set[int]]:
    """Spins for a flag. Those for packets need no invalidation: what they polled is the data."""
    return [spin for spin in spins(function) if not polls_packets(function, spin)]


def polls(function: Function, wait: set[int]) -> list[int]:
    """Looks at the flag: those in the spin, and the first, which compilers often take out of it.

    Looks at `claimed` and the abort word come after a look at the clock, and the look at `claimed`
    when the kernel starts is not at the flag's address.
    """
    words = set(function.all(lambda x: x.named("global_load_dword")))
    looks = {i for i in words & wait if has_scope(function, function.instructions[i])}
    sleeps = [i for i in wait if function.instructions[i].named("s_sleep")]
    unclocked = function.reach(
        sleeps,
        lambda i: i not in wait or function.instructions[i].named("s_memrealtime", "s_memtime"),
    )
    flags = {address(function, i) for i in looks & unclocked} - {
        address(function, i) for i in looks - unclocked
    }
    first = {
        i
        for i in words - wait
        if address(function, i) in flags and brings_address(function, i, wait)
    }
    return sorted(looks & unclocked) + sorted(first)


def address(function: Function, access: int) -> str:
    return re.sub(r" (glc|sc0|sc1)\b", "", function.instructions[access].operands.split(", ", 1)[1])


def brings_address(function: Function, access: int, wait: set[int]) -> bool:
    """Whether a way leads from this access to the spin without overwriting its address registers.

    Nor may there be a signal on the way.
    """
    held = registers(address(function, access))
    is_lost = lambda i: not held.isdisjoint(function.instructions[i].overwritten)  # noqa: E731
    ends = (
        lambda i: is_lost(i) or is_write_back(function.instructions[i]) or is_cut(function, i)
    )  # noqa: E731
    return not is_lost(access) and not wait.isdisjoint(
        function.reach([access], lambda i: i in wait or ends(i))
    )
