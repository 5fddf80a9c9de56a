#!/usr/bin/env python3
"""bench-table.py FILE.json...: makes Markdown tables from the files of `plait-bench --json`.

There is one table per number of ranks, collective, type, operation, placement, memory and timing.
A row is a size, a column an algorithm or a peer. A cell is the time in microseconds and, from 1 MB
on, the bus bandwidth in GB/s. Results with wrong elements are marked. Exit code 1 if there are any,
or no results at all.

bench-table.py --page PAGE.md [--check]: renews the tables between comments in a page, such as

    <!-- bench-table: default beside peer:mpi, data/FILE.json -->
    <!-- end -->

A column is a collective there, and a cell the two times and their ratio. With --check nothing is
written, and the exit code is 1 if a table is not what it would be."""
import collections
import json
import pathlib
import re
import sys

MARKED = re.compile(r"(<!-- bench-table: (\S+) beside (\S+), (\S+) -->\n).*?(<!-- end -->)", re.S)


def size(count):
    for suffix, unit in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if count >= unit and count % unit == 0:
            return f"{count // unit}{suffix}"
    return str(count)


def cell(result):
    text = f"{result['time_us']:.1f}"
    if result["bytes"] >= 1 << 20:
        text += f" ({result['busbw']:.0f})"
    if result["name"] == "default":
        text += f" {result.get('chosen', '')}".rstrip()
    if (result.get("wrong") or 0) != 0:
        text += f" WRONG {result['wrong']}"
    return text


def short(time):
    return f"{time:.{2 if time < 1 else 1 if time < 100 else 0}f}"


def beside(path, name, peer):
    """One table of all collectives in a file: the times of `name` and `peer`, and their ratio."""
    times = {(result["bytes"], result["collective"], result["name"]): result["time_us"]
             for result in json.loads(path.read_text(encoding="utf-8"))["results"]}
    collectives = list(dict.fromkeys(collective for _, collective, _ in times))
    lines = ["| bytes | " + " | ".join(f"`{collective}`" for collective in collectives) + " |",
             "| --- |" + " --- |" * len(collectives)]
    for count in sorted({count for count, _, _ in times}):
        cells = []
        for collective in collectives:
            pair = times[count, collective, name], times[count, collective, peer]
            cells.append(f"{short(pair[0])} / {short(pair[1])} = {pair[0] / pair[1]:.2f}")
        lines.append(f"| {size(count)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def renew(page, check):
    def table(found):
        start, name, peer, file, end = found.groups()
        return start + beside(page.parent / file, name, peer) + end

    old = page.read_text(encoding="utf-8")
    new, tables = MARKED.subn(table, old)
    if tables == 0:
        sys.exit(f"{page}: no table is marked")
    if check and new != old:
        sys.exit(f"{page}: a table is not what {pathlib.Path(__file__).name} --page makes")
    if not check:
        page.write_text(new, encoding="utf-8")
    return 0


def main(paths):
    tables = collections.defaultdict(lambda: collections.defaultdict(dict))
    wrong = results = 0
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)["results"]
        except (OSError, ValueError, KeyError) as error:
            print(f"{path}: {error!r}", file=sys.stderr)
            wrong += 1
            continue
        for result in found:
            results += 1
            wrong += (result.get("wrong") or 0) != 0
            key = (result["ranks"], result["collective"], result["type"], result.get("op") or "",
                   bool(result["in_place"]), result.get("memory", ""), result["timing"])
            tables[key][result["bytes"]][result["name"]] = result
    for (ranks, collective, kind, op, in_place, memory, timing), rows in sorted(tables.items()):
        names = sorted({name for row in rows.values() for name in row},
                       key=lambda name: (name.startswith("peer:"), name != "default", name))
        call = " ".join(word for word in (collective, kind, op) if word)  # op may be empty
        place = "in place" if in_place else "out of place"
        print(f"\n{ranks} ranks, {call}, {place}, {memory} memory, {timing}: us (busbw GB/s)")
        print("| bytes | " + " | ".join(names) + " |")
        print("| --- |" + " --- |" * len(names))
        for count in sorted(rows):
            cells = [cell(rows[count][name]) if name in rows[count] else "-" for name in names]
            print(f"| {size(count)} | " + " | ".join(cells) + " |")
    return 1 if wrong or not results else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--page":
        sys.exit(renew(pathlib.Path(sys.argv[2]), "--check" in sys.argv[3:]))
    sys.exit(main(sys.argv[1:]))
