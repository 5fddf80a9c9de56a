#!/usr/bin/env python3
"""doxygen-filter.py FILE: prints a page or a header the way Doxygen understands it.

Doxygen runs it; the files stay as a Git host shows them. Pages: a heading gets the anchor that a
Git host gives it, and a link to a page or heading becomes a reference, which Doxygen checks. Links
to other files of the repository keep their text alone. Headers: the comment at their top becomes
the file's description.
"""

import base64
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAIN_PAGE = ROOT / "docs" / "README.md"
FENCE = re.compile(r"^(```.*?^```[^\n]*$)", re.DOTALL | re.MULTILINE)
CODE_OR_LINK = re.compile(
    r"(?P<code>(?P<ticks>`+).+?(?P=ticks))"
    r"|(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)",
    re.DOTALL,
)
BOLD_CODE = re.compile(r"\*\*(`[^`]+`)\*\*")
seen = set()  # pages that the main page has named
HEADING = re.compile(r"^(#{1,6}) (.*)$", re.MULTILINE)


def page_label(page: Path) -> str:
    """The name that Doxygen shall know a page by."""
    if page == MAIN_PAGE:
        return "mainpage"
    path = page.relative_to(ROOT).with_suffix("").as_posix().removeprefix("docs/")
    return re.sub(r"\W", "_", "page_" + path)


def anchor(page: Path, heading: str) -> str:
    """The anchor of a heading by the rule of Git hosts, behind the name of its page.

    Doxygen's anchors are for all pages together.
    """
    words = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
    return f"{page_label(page)}--{words}"


def reference(page: Path, text: str, target: str) -> str:
    """A link in Doxygen's words. What does not exist is left to it to complain about."""
    if re.match(r"[a-z]+:", target):
        return f"[{text}]({target})"
    plain = text.replace("`", "")  # a reference's text is shown as it is
    path, _, fragment = target.partition("#")
    other = (page.parent / path).resolve() if path else page
    if other.suffix != ".md" and other.exists():
        return text
    if not other.exists():
        return f"[{plain}](@ref {target})"
    if fragment:
        return f"[{plain}](@ref {anchor(other, fragment)})"
    if page == MAIN_PAGE and other not in seen:  # in this order the website's tree has the pages
        seen.add(other)
        return f'@subpage {page_label(other)} "{plain}"'
    return f"[{plain}](@ref {'index' if other == MAIN_PAGE else page_label(other)})"


def picture(page: Path, text: str, target: str) -> str:
    """A picture becomes part of the page, so the website needs no copy of its file."""
    drawing = (page.parent / target).resolve()
    if not drawing.exists():
        return f"[{text}](@ref {target})"  # Doxygen complains about it
    if drawing.suffix == ".svg":
        html = drawing.read_text(encoding="utf-8")
    else:
        data = base64.b64encode(drawing.read_bytes()).decode()
        kind = drawing.suffix.removeprefix(".")
        html = f'<img alt="{text}" style="max-width:100%" src="data:image/{kind};base64,{data}">\n'
    return f"@htmlonly[block]\n{html}@endhtmlonly"


def filter_prose(page: Path, prose: str) -> str:
    def link(match: re.Match) -> str:
        if match["code"]:
            # A bar in a table's code: Doxygen would show the backslash.
            return match["code"].replace("\\|", "\u2223")
        if match["image"]:
            return picture(page, match["text"], match["target"])
        return reference(page, match["text"], match["target"])

    def heading(match: re.Match) -> str:
        label = page_label(page) if match[1] == "#" else anchor(page, match[2])
        # Without code, which Doxygen 1.9 shows as tags in headings.
        return f"{match[1]} {match[2].replace('`', '')} {{#{label}}}"

    return HEADING.sub(heading, CODE_OR_LINK.sub(link, BOLD_CODE.sub(r"<b>\1</b>", prose)))


def filter_page(page: Path) -> str:
    parts = FENCE.split(page.read_text(encoding="utf-8"))
    return "".join(
        part if part.startswith("```") else filter_prose(page, part) for part in parts
    )


def filter_header(header: Path) -> str:
    text = header.read_text(encoding="utf-8")
    if text.startswith("/* "):  # C
        return "/** @file\n * " + text.removeprefix("/* ")
    top = re.match(r"(// .*\n)+", text)
    if not top:
        return "/** @file */ " + text
    description = re.sub(r"^// ", "", top[0], flags=re.MULTILINE).rstrip()
    return f"/** @file\n{description} */\n" + text[top.end() :]


def main() -> None:
    file = Path(sys.argv[1]).resolve()
    sys.stdout.write(filter_page(file) if file.suffix == ".md" else filter_header(file))


if __name__ == "__main__":
    main()
