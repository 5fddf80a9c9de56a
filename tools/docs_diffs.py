#!/usr/bin/env python3
"""docs_diffs.py [--check] [PAGE...]: renews the parts of differences between files in the pages.

A page shows a part between the lines `<!-- diff: FIRST SECOND PART -->` and `<!-- end of diff -->`.
The files are named from the repository's root, and PART counts from 1. A page that shows one part
must show all, in order. Without PAGE: all pages below docs/. With --check nothing is written: what
would be renewed is printed, and the exit status is 1 if there is anything.
"""
import argparse
import difflib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN = re.compile(r"<!-- diff: (\S+) (\S+) (\d+) -->")
END = "<!-- end of diff -->"


def parts_of(first, second):
    """The parts of the difference, each a list of lines. One line before and after is shown."""
    texts = [(ROOT / name).read_text(encoding="utf-8").splitlines() for name in (first, second)]
    parts = []
    for line in list(difflib.unified_diff(*texts, n=1, lineterm=""))[2:]:  # without the names
        if line.startswith("@@"):
            parts.append([])
        else:
            parts[-1].append(line.rstrip())
    return parts


def renewed(page, text):
    """The text of a page with its differences renewed."""
    lines, inside, parts, shown = [], False, {}, {}
    for number, line in enumerate(text.splitlines(), 1):
        begin = BEGIN.fullmatch(line)
        if begin:
            files, part = (begin[1], begin[2]), int(begin[3])
            if inside:
                sys.exit(f"{page}:{number}: the difference before has no end")
            if files not in parts:
                parts[files], shown[files] = parts_of(*files), 0
            shown[files] += 1
            if part != shown[files] or part > len(parts[files]):
                sys.exit(f"{page}:{number}: there are {len(parts[files])} parts, and this is not "
                         f"number {shown[files]} of them")
            inside = True
            lines += [line, "```diff", *parts[files][part - 1], "```"]
        elif line == END:
            inside = False
        if not inside:
            lines.append(line)
    if inside:
        sys.exit(f"{page}: the last difference has no end")
    for files, count in shown.items():
        if count < len(parts[files]):
            sys.exit(f"{page} shows {count} of {len(parts[files])} parts of {' and '.join(files)}")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("pages", metavar="PAGE", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    differ = False
    for page in [path.resolve() for path in options.pages] or sorted((ROOT / "docs").rglob("*.md")):
        old = page.read_text(encoding="utf-8")
        if not any(BEGIN.fullmatch(line) for line in old.splitlines()):
            continue
        new = renewed(page, old)
        if new == old:
            continue
        differ = True
        if options.check:
            sys.stdout.writelines(difflib.unified_diff(
                old.splitlines(True), new.splitlines(True), f"{page}", "as the files are"))
        else:
            page.write_text(new, encoding="utf-8")
            print(f"renewed {page}")
    if options.check and differ:
        sys.exit("The differences differ. Renew them: tools/docs_diffs.py")


if __name__ == "__main__":
    main()
