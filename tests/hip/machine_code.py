"""AMD GPU code as check_isa.py sees it: functions, and where control can go from each instruction.

A function keeps only the instructions that touch memory, wait or steer, and those that begin a
block. The others break no rule, but an instruction knows which registers they overwrite. An
instruction is known by its place in the function's list.
"""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass, field
from typing import Callable, Iterable, Iterator, Optional

INSTRUCTION = re.compile(
    r"^\t(?P<name>[a-z]\w*) ?(?P<operands>.*?)\s*// (?P<address>[0-9A-F]{8,}):"
)
SYMBOL = re.compile(r"^(?P<address>[0-9a-f]{8,}) <(?P<name>.+)>:$")
KEPT = re.compile(
    r"(global|flat|scratch|buffer|tbuffer|image)_"
    r"|s_(waitcnt|barrier|sleep|memrealtime|memtime|branch|cbranch|setpc|swappc|call|endpgm)"
)
BRANCH = re.compile(r"s_c?branch")
JUMP = re.compile(
    r"^\ts_c?branch\w* (?P<distance>\d+) .*?// (?P<address>[0-9A-F]{8,}):", re.MULTILINE
)
REGISTERS = re.compile(r"\b(?P<file>[vsa])(?:(?P<one>\d+)\b|\[(?P<first>\d+):(?P<last>\d+)\])")


class ToolTrouble(Exception):
    """The file or a tool is not what it should be: nothing was checked."""


@dataclass(frozen=True)
class Instruction:
    address: int
    name: str
    operands: str
    bits: frozenset[str] = field(default=frozenset())  # sc0, sc1, glc, nt, ...
    overwritten: set[str] = field(
        default_factory=set, compare=False
    )  # registers: by it, and by what follows up to the next one

    def __str__(self) -> str:
        return f"{self.address:#x}: {self.name} {self.operands}".rstrip()

    def named(self, *names: str) -> bool:
        return self.name in names

    @property
    def is_vector_memory(self) -> bool:
        return self.name.startswith(
            ("global_", "flat_", "scratch_", "buffer_", "tbuffer_", "image_")
        )

    @property
    def is_load(self) -> bool:
        return self.is_vector_memory and "_load" in self.name

    @property
    def is_atomic(self) -> bool:
        return self.is_vector_memory and "_atomic" in self.name

    @property
    def is_store(self) -> bool:
        return self.is_vector_memory and ("_store" in self.name or "_atomic" in self.name)

    @property
    def is_call(self) -> bool:
        return self.name.startswith(("s_swappc", "s_call"))

    @property
    def waits_for_memory(self) -> bool:
        return self.name == "s_waitcnt" and "vmcnt(0)" in self.operands


@dataclass(eq=False)  # hashed by identity
class Function:
    """A kernel, or what a kernel calls."""

    arch: str
    symbol: str
    start: int
    name: str = ""
    metadata: Optional[dict[str, str]] = None  # of a kernel
    instructions: list[Instruction] = field(default_factory=list)
    successors: list[list[int]] = field(default_factory=list)
    jumped_to: set[int] = field(default_factory=set)

    @property
    def is_kernel(self) -> bool:
        return self.metadata is not None

    @property
    def family(self) -> Optional[str]:
        """ring of plait::ring::Kernel<float>.

        The same for `Exchange`, `Moved`, `Oneshot`, `Twoshot` and `ReduceScatter`, from which
        kernels with several codes are made.
        """
        found = re.search(
            r"\d+([a-z][a-z_0-9]*?)"
            r"(?:6KernelI|8ExchangeI|5MovedE|7OneshotE|7TwoshotE|13ReduceScatterE)",
            self.symbol,
        )
        return found[1] if found else None

    def all(self, wanted: Callable[[Instruction], bool]) -> list[int]:
        return [i for i, instruction in enumerate(self.instructions) if wanted(instruction)]

    def before(self, i: int) -> Iterator[int]:
        """Instructions that have run when `i` runs, last one first, back to the next join."""
        while i > 0 and i not in self.jumped_to and i in self.successors[i - 1]:
            i -= 1
            yield i

    def after(self, i: int) -> Iterator[int]:
        """Instructions that run next, up to the first branch or place that is jumped to."""
        while self.successors[i] == [i + 1] and i + 1 not in self.jumped_to:
            i += 1
            yield i

    def reach(self, starts: Iterable[int], stop: Callable[[int], bool]) -> set[int]:
        """Instructions that can run after `starts` on a way without a `stop` in between.

        Stops that are met are among them.
        """
        reached: set[int] = set()
        waiting = [next_one for start in starts for next_one in self.successors[start]]
        while waiting:
            i = waiting.pop()
            if i in reached:
                continue
            reached.add(i)
            if not stop(i):
                waiting.extend(self.successors[i])
        return reached

    def loops(self, without: Callable[[int], bool]) -> list[set[int]]:
        """The largest sets of instructions in which each can lead to every other.

        Ways that meet a `without` don't count.
        """
        entered = [i for i in range(len(self.instructions)) if not without(i)]
        inside = lambda i: [j for j in self.successors[i] if not without(j)]  # noqa: E731
        return [
            part
            for part in strongly_connected(entered, inside)
            if len(part) > 1 or any(i in inside(i) for i in part)
        ]


def strongly_connected(
    nodes: Iterable[int], successors: Callable[[int], list[int]]
) -> Iterator[set[int]]:
    """Tarjan's algorithm, without recursion."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    for root in nodes:
        work = [] if root in index else [(root, iter(successors(root)))]
        if work:
            index[root] = low[root] = len(index)
            path.append(root)
            on_path.add(root)
        while work:
            node, rest = work[-1]
            for following in rest:
                if following not in index:
                    index[following] = low[following] = len(index)
                    path.append(following)
                    on_path.add(following)
                    work.append((following, iter(successors(following))))
                    break
                if following in on_path:
                    low[node] = min(low[node], index[following])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = path.index(node)
                    part = set(path[at:])
                    del path[at:]
                    on_path -= part
                    yield part


def disassembled(listing: str, arch: str) -> list[Function]:
    functions: list[Function] = []
    jumped_to = {
        int(jump["address"], 16) + 4 + 4 * signed(jump["distance"], 16)
        for jump in JUMP.finditer(listing)
    }
    far: dict[str, int] = (
        {}
    )  # register pair: the address in it, as the compiler computes it for far branches
    ways: list[tuple[int, Optional[int]]] = (
        []
    )  # of the last function: a branch's place and where it leads
    pair = ""
    for line in listing.splitlines():
        symbol = SYMBOL.match(line)
        if symbol:
            connect(functions, ways)
            functions.append(Function(arch, symbol["name"], int(symbol["address"], 16)))
            far, ways = {}, []
            continue
        found = INSTRUCTION.match(line)
        if not found and line.startswith("\t") and line.strip() != "...":  # dots: padding
            raise ToolTrouble(
                f"{arch}: not understood, perhaps because llvm-objdump is too old: {line.strip()}"
            )
        if not found or not functions:
            continue
        address, name, operands = int(found["address"], 16), found["name"], found["operands"]
        if name == "s_getpc_b64":
            pair = operands
            far[pair] = address + 4
        elif (
            name == "s_add_u32" and pair and operands.split(", ")[0] == "s" + pair[2:].split(":")[0]
        ):
            far[pair] += signed(operands.split(", ")[2], 32)
            pair = ""
        instructions = functions[-1].instructions
        begins_block = (
            not instructions or address in jumped_to or BRANCH.match(instructions[-1].name)
        )
        if begins_block or KEPT.match(name):
            instructions.append(Instruction(address, name, operands, modifiers(operands)))
        instructions[-1].overwritten.update(result(name, operands))
        if not KEPT.match(name):
            continue
        here = len(instructions) - 1
        if BRANCH.match(name):
            ways.append((here, address + 4 + 4 * signed(operands.split()[0], 16)))
        elif name == "s_setpc_b64":
            ways.append((here, far.get(operands)))  # None: back to the caller
    connect(functions, ways)
    return [function for function in functions if function.instructions]


def signed(text: str, bits: int) -> int:
    value = int(text, 0)
    return value - (1 << bits) if value >= 1 << (bits - 1) else value


def result(name: str, operands: str) -> set[str]:
    """Registers that an instruction writes."""
    return (
        set()
        if "_store" in name or name.startswith("s_cmp")
        else registers(operands.split(", ")[0])
    )


def registers(operands: str) -> set[str]:
    return {
        f"{found['file']}{number}"
        for found in REGISTERS.finditer(operands)
        for number in (
            [found["one"]] if found["one"] else range(int(found["first"]), int(found["last"]) + 1)
        )
    }


def modifiers(operands: str) -> frozenset[str]:
    return frozenset(
        word
        for word in re.split(r"[ ,]+", operands)
        if word in ("sc0", "sc1", "glc", "slc", "nt", "scc")
    )


def connect(functions: list[Function], ways: list[tuple[int, Optional[int]]]) -> None:
    """Gives the last function its successors."""
    if not functions:
        return
    function = functions[-1]
    addresses = [instruction.address for instruction in function.instructions]
    count = len(addresses)
    function.successors = [[i + 1] if i + 1 < count else [] for i in range(count)]
    for i, target in ways:
        instruction = function.instructions[i]
        if instruction.named("s_branch", "s_setpc_b64"):
            function.successors[i] = []
        if target is None:
            continue
        at = bisect.bisect_left(addresses, target)
        if target < function.start or at == count:
            raise ToolTrouble(f"{function.symbol}: can't tell where this leads: {instruction}")
        if at not in function.successors[i] or at == i + 1:
            function.jumped_to.add(at)
        function.successors[i] = sorted({*function.successors[i], at})
    for i, instruction in enumerate(function.instructions):
        if instruction.named("s_endpgm"):
            function.successors[i] = []
