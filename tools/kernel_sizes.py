#!/usr/bin/env python3
"""tools/kernel_sizes.py BUILD: prints the bytes of each algorithm's kernels in a build folder, as a
table in Markdown: the host's machine code, and the compressed code for GPUs if there is any."""

import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = {".host.cpp.o": ".text", ".cuda.cu.o": ".nv_fatbin"}


def section_bytes(file, section):
    """The bytes of all sections of an object file whose name begins so."""
    listing = subprocess.run(["readelf", "-SW", file], check=True, capture_output=True, text=True)
    total = 0
    for line in listing.stdout.splitlines():
        words = line.partition("]")[2].split()
        if len(words) > 4 and (words[0] == section or words[0].startswith(section + ".")):
            total += int(words[4], 16)
    return total


def family_of(header):
    """As in plait_add_kernels (cmake/PlaitKernels.cmake)."""
    return header.stem.removesuffix("_kernel") if header.stem != "kernel" else header.parent.name


def architectures(build):
    """Of the CUDA kernels in the build, such as sm_90."""
    cache = (build / "CMakeCache.txt").read_text(encoding="utf-8")
    values = re.findall(r"^CMAKE_CUDA_ARCHITECTURES:\w+=(.*)$", cache, re.MULTILINE)
    return " ".join(f"sm_{number}" for number in re.findall(r"\d+", " ".join(values)))


def main():
    build = pathlib.Path(sys.argv[1])
    objects = build / "CMakeFiles/plait.dir/kernels"
    folders = {}
    for header in root.glob("algorithms/**/*kernel.hpp"):
        row = folders.setdefault(header.parent.name, dict.fromkeys(COLUMNS, 0))
        for suffix, section in COLUMNS.items():
            file = objects / (family_of(header) + suffix)
            if file.exists():
                row[suffix] += section_bytes(file, section)
    shown = [suffix for suffix in COLUMNS if any(row[suffix] for row in folders.values())]
    names = {".host.cpp.o": "host, KB", ".cuda.cu.o": f"{architectures(build)}, KB"}
    print("| algorithm | " + " | ".join(names[suffix] for suffix in shown) + " |")
    print("| --- |" + " ---: |" * len(shown))
    rows = sorted(folders.items(), key=lambda item: -sum(item[1].values()))
    for name, row in rows:
        if any(row.values()):
            print(f"| `{name}` | " + " | ".join(f"{row[s] / 1000:,.0f}" for s in shown) + " |")
    totals = (sum(row[s] for row in folders.values()) / 1000 for s in shown)
    print("| all | " + " | ".join(f"{total:,.0f}" for total in totals) + " |")


if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
    sys.exit(__doc__)
if not (pathlib.Path(sys.argv[1]) / "CMakeCache.txt").is_file():
    sys.exit(f"{sys.argv[1]} is no build folder")
main()
