"""Every page can be found, its links resolve, and the commands on it exist."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from tests.docs import command_lines, markdown
from tests.repository import ROOT


def _shown(page: Path) -> str:
    return str(page.relative_to(ROOT))


CALLS = sorted({(page.name, line) for page in markdown.GUIDES for line in markdown.called(page)})


@pytest.mark.parametrize("page", markdown.PAGES, ids=_shown)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    broken = []
    for link in markdown.links(page):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in markdown.anchors(target)):
            broken.append(link)

    assert broken == []


def test_the_index_names_every_page() -> None:
    index = markdown.DOCS / "README.md"
    named = {(index.parent / link.partition("#")[0]).resolve() for link in markdown.links(index)}
    pages = {page for page in markdown.DOCS.rglob("*.md") if page != index}

    assert sorted(page.name for page in pages - named) == []
    assert index in {(ROOT / link).resolve() for link in markdown.links(_readme())}


def test_the_readme_names_every_guide() -> None:
    named = {(ROOT / link).resolve() for link in markdown.links(_readme())}

    assert [guide.name for guide in markdown.GUIDES if guide not in named] == []


@pytest.mark.parametrize(("page", "line"), CALLS)
def test_every_command_of_a_guide_is_understood(
    page: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "values.yaml").touch()
    monkeypatch.chdir(tmp_path)

    try:
        command_lines.check(line)
    except click.MissingParameter:
        assert len(line.split()) == 2  # a sentence names the verb: `arena logs`


def _readme() -> Path:
    return ROOT / "README.md"
