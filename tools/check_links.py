#!/usr/bin/env python3
"""check_links.py [FILE OR FOLDER...]: fails on a relative link in Markdown that leads nowhere.

A link must name a file or folder of the repository, and a fragment must name a heading of that
page, by the anchor that a Git host gives it. Without arguments: every Markdown file that Git knows
or does not ignore. Prints each broken link as FILE:LINE and exits with 1 if there is one.
"""
import functools
import pathlib
import re
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^\s*(```|~~~)")
CODE = re.compile(r"(`+)(?!`).+?\1(?!`)")
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINITION = re.compile(r"^\s{0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
MARKUP = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


def prose(page):
    """The lines outside code blocks: (number, text)."""
    inside = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if FENCE.match(line):
            inside = not inside
        elif not inside and not line.startswith("    "):
            yield number, line


@functools.cache
def anchors(page):
    """The anchors of a page's headings."""
    known = set()
    for _, line in prose(page):
        heading = HEADING.match(line)
        if not heading:
            continue
        words = re.sub(r"[^\w\- ]", "", MARKUP.sub(r"\1", heading[1]).lower())
        base = anchor = words.replace(" ", "-")
        count = 0
        while anchor in known:  # a second heading of the same words gets a number
            count += 1
            anchor = f"{base}-{count}"
        known.add(anchor)
    return known


def listed(*patterns):
    """The files that Git knows or does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    answer = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    files = (ROOT / name for name in answer.stdout.splitlines())
    return [file for file in files if file.is_file()]


@functools.cache
def places():
    """All files of the repository and their folders. Empty folders are missing, as in a clone."""
    files = listed()
    return {ROOT, *files} | {folder for file in files for folder in file.parents}


def complaint(page, target):
    """The reason why a link leads nowhere, or None if it leads somewhere."""
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", target):
        return None
    path, _, fragment = urllib.parse.unquote(target).partition("#")
    other = (page.parent / path).resolve() if path else page
    if other not in places():
        return "there is no such file in the repository"
    if fragment and other.suffix == ".md" and fragment not in anchors(other):
        return "there is no such heading"
    return None


def pages(names):
    """The Markdown files to look at."""
    for name in map(pathlib.Path, names or listed("*.md")):
        found = sorted(name.rglob("*.md")) if name.is_dir() else [name]
        yield from (page.resolve() for page in found if page.is_file())


def main():
    links, broken = 0, 0
    for page in pages(sys.argv[1:]):
        for number, line in prose(page):
            line = CODE.sub(lambda match: "x" * len(match[0]), line)
            for match in list(LINK.finditer(line)) + list(DEFINITION.finditer(line)):
                links += 1
                reason = complaint(page, match[1])
                if reason:
                    broken += 1
                    shown = page.relative_to(ROOT) if ROOT in page.parents else page
                    print(f"{shown}:{number}: {match[1]}: {reason}")
    print(f"{links} links, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
