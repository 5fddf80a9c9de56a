#!/usr/bin/env python3
"""page_rows.py PAGE FOLDER TABLE: writes the lines of code in a page's tables, to compile them.

A table whose head is `| LIBRARY | C++ | C |` has one row per call, in each cell lines of code in
backquotes, or the word "none". FOLDER/left.inc, cpp.inc and c.inc then have each row as

    BEGIN_ROW(name)  statements of the page's first block  BEGIN_LINES  lines  END_LINES  END_ROW

where the name is that of the row's first function of the library. The page's first blocks of `cpp`
and `c` are what its lines rely on; their includes and usings are in cpp_top.inc and c_top.inc.
names.inc has LISTED(name) for each row, and left_names.inc and its like for each row with code in
that column. Both columns of Plait's must call each collective of TABLE, which is
plait/collective_table.h.

Tables with the heads `| LIBRARY type | C++ | C |` and `| LIBRARY operation | C++ | C |` have one
constant per cell, for TYPE(...) and OPERATION(...) in constants.inc.
"""
import pathlib
import re
import sys

TABLE = re.compile(r"^\| (\w+)( type| operation)? \| C\+\+ \| C \|$")
TOP = re.compile(r"#include |using ")


def cells_of(row):
    """The lines of code in each cell of a row, or nothing where the cell says "none"."""
    cells = [cell.strip() for cell in row.strip().strip("|").split("|")]
    if len(cells) != 3:
        sys.exit(f"not three cells: {row}")
    codes = [re.findall(r"`([^`]+)`", cell) for cell in cells]
    for cell, code in zip(cells, codes):
        if bool(code) == (cell == "none"):
            sys.exit(f"a cell has neither code nor the word none: {row}")
    return codes


def tables_of(text):
    """The head's two words, the number of the line and the cells, for each row."""
    lines = text.splitlines()
    for head, line in enumerate(lines):
        found = TABLE.match(line)
        for number in range(head + 2, len(lines) if found else 0):
            if not lines[number].startswith("|"):
                break
            yield found[1], found[2], number + 1, cells_of(lines[number])


def block_of(text, language):
    """The lines of the first block of a language, those for the top and the statements."""
    found = re.search(rf"^```{language}\n(.*?)^```$", text, re.S | re.M)
    if not found:
        sys.exit(f"the page has no block of {language}")
    lines = found[1].splitlines()
    return ([line for line in lines if TOP.match(line)],
            [line for line in lines if line and not TOP.match(line)])


def main():
    page, folder, table = map(pathlib.Path, sys.argv[1:])
    text = page.read_text(encoding="utf-8")
    cpp_top, cpp_begin = block_of(text, "cpp")
    c_top, c_begin = block_of(text, "c")
    begins = [[], cpp_begin, c_begin]
    columns, listed, constants, names = [[], [], []], [[], [], []], [], []
    for library, kind, number, cells in tables_of(text):
        if kind:
            constants.append(f"{kind.strip().upper()}({', '.join(cell[0] for cell in cells)})")
            continue
        prefix = {"MPI": "MPI_", "NCCL": "nccl"}[library] if cells[0] else "plait_"
        name = re.search(rf"\b{prefix}\w+(?=\()", " ".join(cells[0] or cells[2]))[0]
        while name in names:
            name += "_too"
        names.append(name)
        for column, begin, listing, lines in zip(columns, begins, listed, cells):
            if lines:
                listing.append(f"LISTED({name})")
                where = f'#line {number} "{page}"'
                column += [f"BEGIN_ROW({name})", *begin, "BEGIN_LINES", where]
                column += [line if line.endswith((";", "}")) else line + ";" for line in lines]
                column += ["END_LINES", "END_ROW"]
    collectives = re.findall(r"^  (?:ROW|OTHER)\((\w+), [A-Z]", table.read_text("utf-8"), re.M)
    for column, form in ((columns[1], "comm.{}("), (columns[2], "plait_{}(")):
        for call in map(form.format, collectives):
            if not any(call in line for line in column):
                sys.exit(f"{page}: no row has {call}...)")
    files = {"left": columns[0], "cpp": columns[1], "c": columns[2], "left_names": listed[0],
             "cpp_names": listed[1], "c_names": listed[2], "cpp_top": cpp_top, "c_top": c_top,
             "constants": constants, "names": [f"LISTED({name})" for name in names]}
    for name, lines in files.items():
        (folder / f"{name}.inc").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
