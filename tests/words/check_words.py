#!/usr/bin/env python3
"""check_words.py PAGE COLUMN ASSEMBLY: the instructions of the kernels of probes.hpp are those that
the page's table of words names in that column, in this order. Each stands between backticks, as its
name and what must follow it in the line: `global_load_dword glc`.
"""
import pathlib
import re
import sys

# The probe of each word, by the first cell of its row.
PROBES = {
    "`signal`": "signal", "`wait`": "wait", "`arrive`": "arrive", "`sync`": "signal",
    "`all`": "all", "`put` of a packet": "put", "`get` of a packet": "get",
    "`put` of a line": "put_line", "`get` of a line": "get_line",
    "`put` of marked data": "put_marked", "`take`": "take", "`empty`": "empty",
    "`release`": "release", "`acquire`": "acquire", "`load`, `store`": "copy",
    "`copy_async` ...": "stage",
}


def rows_of(page, column):
    """The cell of each word in a column."""
    lines = [[cell.strip() for cell in line.strip("|\n ").split(" | ")]
             for line in page.open(encoding="utf-8") if line.startswith("|")]
    head = next(i for i, line in enumerate(lines) if line[0] == "word")
    place = next(i for i, cell in enumerate(lines[head]) if cell.startswith(column))
    rows = {}
    for line in lines[head + 2:]:
        if line[0] not in PROBES:
            break
        rows[line[0]] = line[place]
    if missing := set(PROBES) - set(rows):
        sys.exit(f"{page}: no row for {', '.join(sorted(missing))}")
    return rows


def body_of(assembly, probe):
    found = re.search(rf"(?:\.entry probe_{probe}\(|^probe_{probe}:).*?(?:^\}}|s_endpgm|^//---|\Z)",
                      assembly, re.M | re.S)
    return found[0].splitlines() if found else sys.exit(f"there is no probe_{probe}")


def main(page, column, assembly):
    assembly = pathlib.Path(assembly).read_text(encoding="utf-8")
    wrong = 0
    for word, cell in rows_of(pathlib.Path(page), column).items():
        lines = iter(body_of(assembly, PROBES[word]))
        for instruction in re.findall(r"`([^`]+)`", cell):
            name, *rest = instruction.split()
            if not any(re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", line) and
                       all(part in line for part in rest) for line in lines):
                print(f"{column}: {word}: no `{instruction}` at its place")
                wrong += 1
    print(f"{column}: {len(PROBES)} words, {wrong} instructions missing")
    sys.exit(wrong != 0)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
