#!/usr/bin/env python3
"""docs_tables.py [--check] PLAIT_INFO [PAGE...]: renews the tables of algorithms in the pages, and
how many there are.

The program `PLAIT_INFO --markdown` prints the tables from the registry. A page holds one between
the lines `<!-- table: NAME -->` and `<!-- end of table -->`. A row that begins with the name of an
algorithm links to the page below docs/algorithms whose title names it. The number of different
first cells of the tables NAME and NAME: ... stands between `<!-- count: NAME -->` and
`<!-- end of count -->`.

Without PAGE: the README and all pages below docs/. With --check nothing is written: the differences
are printed, and the exit status is 1 if there are any.
"""
import argparse
import difflib
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN = re.compile(r"<!-- table: (.+) -->")
END = "<!-- end of table -->"
COUNT = re.compile(r"(<!-- count: (.+?) -->)\d+(<!-- end of count -->)")


def tables_of(program):
    """The tables by name, each a list of lines."""
    answer = subprocess.run([program, "--markdown"], check=True, capture_output=True, text=True)
    tables = {}
    for line in answer.stdout.splitlines():
        begin = BEGIN.fullmatch(line)
        if begin:
            lines = tables[begin[1]] = []
        elif line:
            lines.append(line)
    return tables


def titled_pages():
    """The page of each word in a title below docs/algorithms."""
    pages = {}
    for page in sorted((ROOT / "docs/algorithms").glob("*.md")):
        with page.open(encoding="utf-8") as file:
            pages |= {word: page for word in re.findall(r"\w+", file.readline())}
    return pages


def renewed(page, text, tables, pages):
    """The text of a page with its tables renewed, and the names of these."""
    def linked(cell):
        target = pages.get(cell[1])
        link = target and f"[`{cell[1]}`]({os.path.relpath(target, page.parent)})"
        return f"| {link} |" if target else cell[0]

    def counted(count):
        heads = {row.split("|")[1] for name, table in tables.items()
                 if name.split(":")[0] == count[2] for row in table[2:]}
        if not heads:
            sys.exit(f"{page}: there is no table {count[2]!r} to count")
        return f"{count[1]}{len(heads)}{count[3]}"

    lines, names, inside = [], [], False
    text = COUNT.sub(counted, text)
    for number, line in enumerate(text.splitlines(), 1):
        begin = BEGIN.fullmatch(line)
        if begin:
            if inside or begin[1] not in tables:
                sys.exit(f"{page}:{number}: there is no table {begin[1]!r}" if not inside
                         else f"{page}:{number}: the table before has no end")
            inside = True
            names.append(begin[1])
            lines += [line, *(re.sub(r"^\| `(\w+)` \|", linked, row) for row in tables[begin[1]])]
        elif line == END:
            inside = False
        if not inside:
            lines.append(line)
    if inside:
        sys.exit(f"{page}: the last table has no end")
    return "\n".join(lines) + "\n", names


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("program", metavar="PLAIT_INFO")
    parser.add_argument("pages", metavar="PAGE", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    tables, pages = tables_of(options.program), titled_pages()
    unused, differ = set(tables), False
    everything = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in [path.resolve() for path in options.pages] or everything:
        old = page.read_text(encoding="utf-8")
        new, names = renewed(page, old, tables, pages)
        unused -= set(names)
        if new == old:
            continue
        differ = True
        if options.check:
            sys.stdout.writelines(difflib.unified_diff(
                old.splitlines(True), new.splitlines(True), f"{page}", "as the library is"))
        else:
            page.write_text(new, encoding="utf-8")
            print(f"renewed {page}")
    if unused and not options.pages:
        sys.exit(f"no page shows these tables: {', '.join(sorted(unused))}")
    if options.check and differ:
        sys.exit(f"The tables differ. Renew them: tools/docs_tables.py {options.program}")


if __name__ == "__main__":
    main()
