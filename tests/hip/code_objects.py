"""The AMD GPU code objects in a file, and the functions in them with their names and facts."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import tempfile
from typing import Iterator

from machine_code import Function, ToolTrouble, disassembled

BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
COMPRESSED_BUNDLE = re.compile(rb"CCOB[\x01-\x03]\x00[\x00-\x03]\x00")
ELF_MACHINE_AMDGPU = 224


class Tools:
    def __init__(self, objdump: str, readelf: str):
        self.objdump, self.readelf = objdump, readelf
        beside = os.path.join(os.path.dirname(objdump), "llvm-cxxfilt")
        self.cxxfilt = (
            beside
            if os.path.dirname(objdump) and os.path.exists(beside)
            else shutil.which("c++filt")
        )

    def run(self, *command: str, text: str = "") -> str:
        try:
            done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        except OSError as error:
            raise ToolTrouble(f"{command[0]}: {error.strerror}") from error
        if done.returncode != 0:
            raise ToolTrouble(f"{' '.join(command)} failed: {done.stderr.strip()}")
        return done.stdout

    def demangled(self, symbols: list[str]) -> list[str]:
        if self.cxxfilt is None or not symbols:
            return symbols
        names = self.run(self.cxxfilt, text="\n".join(symbols) + "\n").splitlines()
        return [re.sub(r"^void |\(.*$", "", name) for name in names]


def code_objects(path: str) -> list[bytes]:
    """All AMD GPU code objects in a host file with fat binaries, or the file if it is one."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ToolTrouble(f"{path}: {error.strerror}") from error
    if data[:4] == b"\x7fELF" and struct.unpack_from("<H", data, 18)[0] == ELF_MACHINE_AMDGPU:
        return [data]
    if COMPRESSED_BUNDLE.search(data):
        raise ToolTrouble(
            f"{path} holds compressed fat binaries, which this script can't read: build with"
            " --no-offload-compress"
        )
    found = [code for at in re.finditer(BUNDLE, data) for code in bundled(data, at.start())]
    if not found:
        raise ToolTrouble(f"{path} holds no AMD GPU code object")
    return found


def bundled(data: bytes, start: int) -> Iterator[bytes]:
    """The amdgcn entries of a fat binary.

    It has the magic word, a count, and (offset, size, length of the name, name) of each entry.
    """
    at = start + len(BUNDLE)
    if at + 8 > len(data):
        return
    (count,) = struct.unpack_from("<Q", data, at)
    at += 8
    if not 0 < count < 256:
        return  # the magic word alone, as text in some program
    for _ in range(count):
        if at + 24 > len(data):
            return
        offset, size, length = struct.unpack_from("<QQQ", data, at)
        name = data[at + 24 : at + 24 + length]
        at += 24 + length
        if b"amdgcn" in name and size != 0:
            yield data[start + offset : start + offset + size]


def functions_of(code: bytes, tools: Tools) -> list[Function]:
    with tempfile.NamedTemporaryFile(suffix=".co") as file:
        file.write(code)
        file.flush()
        notes = tools.run(tools.readelf, "--notes", file.name)
        listing = tools.run(tools.objdump, "-d", "--no-show-raw-insn", file.name)
    arch, metadata = kernel_metadata(notes)
    functions = disassembled(listing, arch)
    missing = metadata.keys() - {function.symbol for function in functions}
    if missing:
        raise ToolTrouble(f"{arch}: no code was disassembled for {', '.join(sorted(missing))}")
    names = tools.demangled([function.symbol for function in functions])
    for function, name in zip(functions, names):
        function.name, function.metadata = name, metadata.get(function.symbol)
        for i in function.all(lambda instruction: instruction.named("s_setpc_b64")):
            if function.is_kernel and not function.successors[i]:
                raise ToolTrouble(
                    f"{name}: can't tell where this leads: {function.instructions[i]}"
                )
    return functions


def kernel_metadata(notes: str) -> tuple[str, dict[str, dict[str, str]]]:
    """The architecture, and by symbol the compiler's facts about each kernel.

    Reads the YAML that llvm-readelf prints by its indentation.
    """
    target = re.search(r"^amdhsa\.target: +'?amdgcn-amd-amdhsa-[^-]*-(gfx\w+)", notes, re.MULTILINE)
    if not target:
        raise ToolTrouble("a code object has no amdhsa.target note")
    kernels: list[dict[str, str]] = []
    for line in notes.splitlines():
        key = re.match(r"^  (- |  )\.(\w+): *(.*)$", line)
        if key:
            if key[1] == "- ":
                kernels.append({})
            if kernels:
                kernels[-1][key[2]] = key[3].strip("'")
    return target[1], {kernel["name"]: kernel for kernel in kernels if "name" in kernel}
