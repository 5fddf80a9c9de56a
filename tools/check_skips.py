#!/usr/bin/env python3
"""Which tests were skipped, and why; fails on a skip that tests/skips.txt does not list.

check_skips.py [--list FILE] [--complete] TARGET RESULTS...

TARGET is what the tests ran on: host, cuda or hip. RESULTS are JUnit files of CTest (*.xml), or
logs with the output of test programs. A skip is a GTEST_SKIP, a test that CTest skipped or did not
run, or a line `LEFT OUT: NAME: REASON`, with which the zoo names an algorithm that it can't try.

With --complete, all tests of the target have run, where nothing is missing. Then an entry `always`
of the list that no skip matches is an error, too, because it hides nothing and the next reader
believes it; and an entry `elsewhere` allows no skip.
"""
import argparse
import collections
import fnmatch
import os
import pathlib
import re
import sys
import xml.etree.ElementTree

Skip = collections.namedtuple("Skip", "name reason")
TARGETS = ("host", "cuda", "hip")
MESSAGE = re.compile(r":\d+: Skipped$")
SKIPPED = re.compile(r"^\[  SKIPPED \] (.*) \(\d+ ms\)$")
# Under mpirun a program believes that it prints to a terminal. CTest spells out the escape.
COLOR = re.compile(r"(\x1b|\[NON-XML-CHAR-0x1B\])\[[\d;]*m")
LEFT_OUT = re.compile(r"^LEFT OUT: (.*?): (.*)$")


class Entry:
    """A line of the list: TARGET[,TARGET] always|sometimes|elsewhere TEST REASON."""

    def __init__(self, number, line):
        fields = line.split(None, 3)
        if len(fields) != 4:
            raise ValueError("it is TARGETS WHEN TEST REASON")
        targets, self.when, self.test, self.reason = fields
        self.number, self.targets = number, targets.split(",")
        if self.when not in ("always", "sometimes", "elsewhere"):
            raise ValueError(f"{self.when} is none of always, sometimes, elsewhere")
        for target in self.targets:
            if target not in TARGETS:
                raise ValueError(f"{target} is none of {', '.join(TARGETS)}")

    def matches(self, skip):
        return fnmatch.fnmatchcase(skip.name, self.test) and fnmatch.fnmatchcase(
            skip.reason, self.reason)


def entries_of(path, target):
    """The list's entries for the target."""
    entries = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            try:
                entries.append(Entry(number, line.strip()))
            except ValueError as error:
                sys.exit(f"{path}:{number}: {error}")
    return [entry for entry in entries if target in entry.targets]


def skips_in(text):
    """The skips in the output of test programs."""
    reason, message_follows = "", False
    for line in COLOR.sub("", text).splitlines():
        if message_follows:
            # Of a reason of several lines, the first one says enough.
            reason, message_follows = line.strip(), False
        elif MESSAGE.search(line):
            message_follows = True
        elif match := SKIPPED.match(line):
            yield Skip(match[1], reason)
            reason = ""
        elif match := LEFT_OUT.match(line):
            yield Skip(match[1], match[2])


def skips_of_ctest(path):
    """The skips in a JUnit file: those of whole tests, and those in their output."""
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        output = case.findtext("system-out") or ""
        yield from skips_in(output)
        skipped = case.find("skipped")
        if skipped is not None or case.get("status") in ("notrun", "disabled"):
            said = re.search(r"^SKIPPED: (.*)$", output, re.MULTILINE)
            message = skipped.get("message") if skipped is not None else output.strip()
            yield Skip(case.get("name"), said[1] if said else message)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", type=pathlib.Path, default=root / "tests/skips.txt")
    parser.add_argument("--complete", action="store_true",
                        help="all tests have run, where nothing is missing")
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("results", nargs="+", type=pathlib.Path)
    options = parser.parse_args()

    entries = [entry for entry in entries_of(options.list, options.target)
               if not (options.complete and entry.when == "elsewhere")]
    tests, used, wrong = collections.defaultdict(list), set(), 0
    for path in options.results:
        try:
            found = skips_of_ctest(path) if path.suffix == ".xml" else skips_in(
                path.read_text(encoding="utf-8", errors="replace"))
            skips = sorted(set(found))
        except (OSError, xml.etree.ElementTree.ParseError) as error:
            sys.exit(f"{path}: {getattr(error, 'strerror', None) or error}")
        for skip in skips:
            tests[skip.reason].append(skip.name)
            matching = [entry for entry in entries if entry.matches(skip)]
            used.update(matching)
            if not matching:
                wrong += 1
                print(f"not in {os.path.relpath(options.list)}: {skip.name}: {skip.reason}")
    print(f"skipped on {options.target}: {sum(map(len, tests.values()))}")
    for reason, names in sorted(tests.items()):
        shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        print(f"  {len(names):4d}  {reason or '(no reason)'}: {shown}")
    if options.complete:
        for entry in entries:
            if entry.when == "always" and entry not in used:
                wrong += 1
                print(f"{os.path.relpath(options.list)}:{entry.number}: skips nothing: "
                      f"{entry.test}: {entry.reason}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
