"""The page about the command line matches the code."""

from __future__ import annotations

from scripts import generate_cli_reference

from muster.cli.verb_table import VERBS


def test_the_reference_page_equals_the_generated_one() -> None:
    assert generate_cli_reference.PAGE.read_text() == generate_cli_reference.page(), (
        "stale: run `make docs`"
    )


def test_the_reference_page_has_every_verb_and_its_flags() -> None:
    page = generate_cli_reference.page()

    assert [verb.name for verb in VERBS if f"\n## arena {verb.name}\n" not in page] == []
    assert "### arena submit tfjob" in page
    assert "`-n, --namespace TEXT`" in page
    assert "`arena serve`" in page
