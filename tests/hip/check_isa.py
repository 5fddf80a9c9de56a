#!/usr/bin/env python3
"""Reads the AMD machine code of kernels and checks that it is what backends/hip/gcn.hpp means.

FILE is a library, program or object with HIP kernels in it, or a bare code object. A missing wait
or a cache left alone shows rarely even where there are AMD GPUs to run on, so every kernel is
disassembled and held against the rules in gcn_rules.py. These follow the memory models of gfx90a
and gfx942 in LLVM's "User Guide for AMDGPU Backend". They are about instructions, not about the
result that a kernel computes.

Exit code: 0 if all rules hold (with --expect: exactly the expected ones do not), 1 otherwise, 2 if
nothing was checked.
"""

from __future__ import annotations

import argparse
import os
import sys

sys.dont_write_bytecode = True  # the source folder stays clean

from code_objects import Tools, code_objects, functions_of
from gcn_rules import (
    ARCHITECTURES,
    EVERYWHERE,
    Finding,
    Rule,
    fence,
    findings_of,
    moves_packets,
    moves_packs,
    release,
    signals_unheard,
)
from machine_code import Function, ToolTrouble
from probe_rules import PROBES, missing_probes

SHOWN = 20


def names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--objdump", default="llvm-objdump", help="of LLVM 16 or newer")
    parser.add_argument("--readelf", help="llvm-readelf; beside objdump unless given")
    parser.add_argument(
        "--arch",
        type=names,
        default=[],
        metavar="ARCH,...",
        help="architectures that must be there",
    )
    parser.add_argument(
        "--packs",
        type=names,
        default=[],
        metavar="FAMILY,...",
        help="kernel families that move packs of 16 bytes",
    )
    parser.add_argument(
        "--packets",
        type=names,
        default=[],
        metavar="FAMILY,...",
        help="kernel families that move flagged packets, or marked data of the same size",
    )
    parser.add_argument(
        "--fences",
        type=names,
        default=[],
        metavar="FAMILY,...",
        help="kernel families whose release comes before data, and not before a flag",
    )
    parser.add_argument(
        "--probes",
        action="store_true",
        help="the kernels are those of tests/words/probes.hpp: check each word's exact sequence",
    )
    parser.add_argument(
        "--expect",
        type=names,
        metavar="RULE,...",
        help="succeed if these rules are broken, each of them, and no other",
    )
    arguments = parser.parse_args()
    if arguments.readelf is None:
        folder, name = os.path.split(arguments.objdump)
        arguments.readelf = os.path.join(folder, name.replace("objdump", "readelf"))
    return arguments


def rules_for(function: Function, arguments: argparse.Namespace) -> list[tuple[str, Rule]]:
    rules = EVERYWHERE + [("acquire", signals_unheard)]
    if arguments.probes:
        rules = EVERYWHERE + PROBES.get(function.symbol, [])
    if function.family in arguments.fences or function.symbol == "probe_release":
        rules = [(name, fence if rule is release else rule) for name, rule in rules]
    if function.family in arguments.packs:
        rules = rules + [("width", moves_packs)]
    if function.family in arguments.packets:
        rules = rules + [("width", moves_packets)]
    return rules


def missing(functions: list[Function], arguments: argparse.Namespace) -> list[Finding]:
    """Requested things that aren't there: a check of nothing must not succeed."""
    kernels = [function for function in functions if function.is_kernel]
    found = {kernel.arch for kernel in kernels}
    wanted = [arch.split(":")[0] for arch in arguments.arch]
    lacks = [
        Finding("architecture", arch, "all kernels", "no code for it was found")
        for arch in wanted
        if arch not in found
    ]
    for arch in sorted(found):
        families = {kernel.family for kernel in kernels if kernel.arch == arch}
        for family in arguments.packs + arguments.packets + arguments.fences:
            if family not in families:
                lacks.append(
                    Finding("width", arch, f"family {family}", "no kernel of it was found")
                )
        if arguments.probes:
            lacks += missing_probes(arch, kernels)
    return lacks


def report(findings: list[Finding], summary: str, expected: list[str] | None) -> int:
    broken = sorted({finding.rule for finding in findings})
    if expected is not None and broken == sorted(set(expected)):
        print(
            f"check_isa: {summary}: {len(findings)} findings, all of {', '.join(broken)}, as"
            " expected"
        )
        return 0
    for finding in findings[:SHOWN]:
        print(finding)
    if len(findings) > SHOWN:
        print(f"... and {len(findings) - SHOWN} more")
    if expected is not None:
        print(
            f"check_isa: {summary}: expected findings of {', '.join(expected)} and got"
            f" {', '.join(broken) or 'none'}"
        )
        return 1
    if findings:
        print(f"check_isa: {summary}: {len(findings)} findings, of {', '.join(broken)}")
        return 1
    print(f"check_isa: {summary}: all rules hold")
    return 0


def main() -> int:
    arguments = parsed_arguments()
    tools = Tools(arguments.objdump, arguments.readelf)
    functions: list[Function] = []
    findings: list[Finding] = []
    try:
        for path in arguments.files:
            for code in code_objects(path):
                for function in functions_of(code, tools):
                    if function.arch not in ARCHITECTURES:
                        raise ToolTrouble(
                            f"{path}: code for {function.arch}, whose rules are unknown: only"
                            f" {' and '.join(ARCHITECTURES)}"
                        )
                    findings += findings_of(function, rules_for(function, arguments))
                    functions.append(function)
        kernels = [function for function in functions if function.is_kernel]
        if not kernels:
            raise ToolTrouble(f"{', '.join(arguments.files)}: no kernels")
    except ToolTrouble as trouble:
        print(f"check_isa: {trouble}", file=sys.stderr)
        return 2
    findings = list(dict.fromkeys(missing(functions, arguments) + findings))
    architectures = " and ".join(sorted({kernel.arch for kernel in kernels}))
    return report(findings, f"{len(kernels)} kernels, {architectures}", arguments.expect)


if __name__ == "__main__":
    sys.exit(main())
