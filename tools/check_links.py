#!/usr/bin/env python3
"""check_links.py [FILE OR FOLDER...]: fails on a relative link in Markdown that leads nowhere.

A link must name a file or folder of the repository, and a fragment must name a heading of that
page, by the anchor that a Git host gives it. Without arguments: every Markdown file that Git knows
or does not ignore. Prints each broken link as FILE:LINE and exits with 1 if there is one.
"""
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
    """The lines outside of code blocks: (number, text)."""
    inside = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if FENCE.match(line):
            inside = not inside
        elif not inside and not line.startswith("    "):
            yield number, line


def anchors(page, known={}):
    """The anchors of a page's headings."""
    if page not in known:
        known[page] = set()
        for _, line in prose(page):
            heading = HEADING.match(line)
            if not heading:
                continue
            words = re.sub(r"[^\w\- ]", "", MARKUP.sub(r"\1", heading[1]).lower())
            base = anchor = words.replace(" ", "-")
            count = 0
            while anchor in known[page]:  # a second heading of the same words gets a number
                count += 1
                anchor = f"{base}-{count}"
            known[page].add(anchor)
    return known[page]


def complaint(page, target):
    """The reason why a link leads nowhere; nothing if it does not."""
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", target):
        return None
    path, _, fragment = urllib.parse.unquote(target).partition("#")
    other = (page.parent / path).resolve() if path else page
    if not other.exists():
        return "there is no such file"
    if ROOT not in other.parents and other != ROOT:
        return "outside of the repository"
    if fragment and other.suffix == ".md" and fragment not in anchors(other):
        return "there is no such heading"
    return None


def pages(names):
    """The Markdown files to look at."""
    if not names:
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        names = [ROOT / name for name in listed.stdout.splitlines()]
    for name in map(pathlib.Path, names):
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
