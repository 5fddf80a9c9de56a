#!/usr/bin/env python3
"""check_floors.py [ROOT]: reads every #include of the repository and fails on one that points up.

The rooms of the code stand on floors. A file may include files of its own room and of the floors
below. Rooms of one floor don't know each other. Prints each include that breaks this, as FILE:LINE,
and each room whose place in the table of docs/architecture.md, if there is one, is another. Exits
with 1 if there is any.
"""
import os
import pathlib
import re
import subprocess
import sys

# From the ground up. "NAME/*": each folder in NAME is a room.
FLOORS = [
    ["include/plait", "cmake"],
    ["core"],
    ["bootstrap"],
    ["bootstrap/socket"],
    ["bootstrap/launcher"],
    ["bootstrap/mpi"],
    ["backends/device"],
    ["backends"],
    ["backends/host", "backends/model"],
    ["backends/gpu"],
    ["backends/cuda"],
    ["backends/hip"],
    ["backends/all"],
    ["transport"],
    ["transport/socket", "transport/mpi", "transport/plugin"],
    ["symm_mem"],
    ["algorithms/contract"],
    ["algorithms/blocks/loops", "algorithms/blocks/patterns"],
    ["algorithms/blocks/flags", "algorithms/blocks/channels"],
    ["algorithms/barrier", "algorithms/own_kernels"],
    ["algorithms/all_reduce/*", "algorithms/one_hop/*", "algorithms/rooted/*",
     "algorithms/messages/*", "algorithms/nodes/*"],
    ["communicator/selection", "communicator/observe"],
    ["communicator/fault", "communicator/calibration"],
    ["communicator/groups", "communicator/nodes"],
    ["communicator/resources"],
    ["communicator/calls"],
    ["communicator/messages", "communicator/host_reductions"],
    ["communicator"],
    ["interop/c", "interop/fortran", "interop/kernels", "interop/nccl"],
    ["interop/kokkos", "interop/mpi", "interop/pmpi"],
    ["bench", "examples"],
    ["tests"],
]
# The compilers search these after the file's own folder.
SEARCHED = ["", "include", "interop/kernels/include", "interop/kokkos/include", "tests", "bench"]
SOURCE = re.compile(r"\.(hpp|cpp|h|c|cu|cuh|hip)$")
INCLUDE = re.compile(r'\s*#\s*include\s+[<"]([^">]+)[">]')


def room_of(path):
    """The file's room and floor, or None if it is in no room."""
    best = None
    for floor, rooms in enumerate(FLOORS):
        for room in rooms:
            wild = room.endswith("/*")
            folder = room[:-2] if wild else room
            if not path.startswith(folder + "/"):
                continue
            if wild:
                folder = "/".join(path.split("/")[: folder.count("/") + 2])
            if best is None or len(folder) > len(best[0]):
                best = (folder, floor)
    return best


def find(files, source, included):
    """The repository's file that an #include names, or None."""
    for folder in [os.path.dirname(source)] + SEARCHED:
        path = os.path.normpath(os.path.join(folder, included))
        if path in files:
            return path
    return None


def misplaced(page):
    """The rooms that the page's table of rooms lacks or has in another order than FLOORS."""
    table = page.read_text(encoding="utf-8").partition("\n## Rooms\n")[2].partition("\n\nBeside")[0]
    heads = "".join(re.findall(r"^(\|[^|]*\|)", table, re.MULTILINE))
    shown = [room.rstrip("/") for room in re.findall(r"`([^`]+)`", heads)]
    floors = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
    floors.pop("cmake")  # it stands beside the rooms: what it configures is included
    for room in floors.keys() ^ set(shown):
        yield f"{page}: `{room}` is {'not' if room in floors else 'wrongly'} in the table of rooms"
    for lower, upper in zip(shown, shown[1:]):
        if floors.get(lower, -1) > floors.get(upper, len(FLOORS)):
            yield f"{page}: `{upper}` is listed above `{lower}`"


def main():
    own = pathlib.Path(__file__).parent.parent
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else own).resolve()
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    answer = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    listed = answer.stdout.splitlines()
    files = {name for name in listed if SOURCE.search(name) and (root / name).is_file()}
    wrong, arrows = [], 0
    for source in sorted(files):
        room = room_of(source)
        if room is None:
            if "/" in source:
                wrong.append(f"{source}: in no room that tools/check_floors.py knows")
            continue
        for number, line in enumerate((root / source).read_text(errors="replace").splitlines(), 1):
            match = INCLUDE.match(line)
            target = match and find(files, source, match.group(1))
            if not target:
                continue
            other = room_of(target)
            arrows += 1
            if other is None or other[0] == room[0] or other[1] < room[1]:
                continue
            how = "up to" if other[1] > room[1] else "across to"
            wrong.append(f"{source}:{number}: {room[0]} reaches {how} {other[0]}: {target}")
    page = root / "docs/architecture.md"
    if page.is_file():
        wrong += misplaced(page)
    for sentence in wrong:
        print(sentence)
    print(f"{arrows} includes in {len(files)} files, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
