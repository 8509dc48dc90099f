"""Reading the pages: commands with their output, links, headings, tables."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from tests.repository import ROOT

DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
GUIDES = [
    DOCS / f"{name}.md"
    for name in (
        "trying", "installing", "moving-over", "operations", "security", "troubleshooting"
    )
]  # fmt: skip


@dataclass
class Shown:
    """A command of a console block, and the output that the page shows below it."""

    line: str
    output: list[str] = field(default_factory=list)


def shown_commands(page: Path) -> list[Shown]:
    """The commands of all console blocks, in the order of the page."""
    found: list[Shown] = []
    for block in re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Shown(line[2:]))
            elif line.strip() not in ("", "…"):
                found[-1].output.append(line)
    return found


def called(page: Path) -> set[str]:
    """Every call of `arena` and `muster` on a page, in console blocks and in sentences."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    inline = re.findall(r"(?<!`)`((?:arena|muster) [^`]+)`(?!`)", text)
    lines = [shown.line for shown in shown_commands(page)]
    # The second half of a pipe, and the file behind a `>`, are not the command's.
    calls = (re.split(r" [|>]", " ".join(line.split()))[0] for line in (*lines, *inline))
    return {line for line in calls if re.match("arena |muster ", line)}


def prose(page: Path) -> str:
    """The text without blocks and spans of code, in which brackets are no links."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def links(page: Path) -> list[str]:
    """The targets of all links and pictures of a page that are not on the web."""
    targets = re.findall(r"\]\(([^()\s]+)\)", prose(page))
    return [target for target in targets if "://" not in target]


def anchors(page: Path) -> set[str]:
    """The names of a page's headings in links, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in plain}


def first_column(page: Path, heading: str) -> list[str]:
    """The spans of code in the first column of all tables below a heading, to the next of its
    level."""
    level, text = heading.partition(" ")[0], page.read_text()
    assert f"\n{heading}\n" in text, f"{page.name} has no heading {heading!r}"
    section = text.split(f"\n{heading}\n", 1)[1]
    section = re.split(rf"^#{{1,{len(level)}}} ", section, maxsplit=1, flags=re.MULTILINE)[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])]
