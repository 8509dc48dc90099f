"""The settings file: what it may say, and what is said when it says nonsense."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubekit.errors import ConfigError
from muster.contract.scheduler_rights import NAMES
from muster.scheduler.settings import Settings, Weights, load, merge_reloaded


def written(folder: Path, text: str) -> Path:
    path = folder / "settings.yaml"
    path.write_text(text)
    return path


def test_an_empty_file_gives_the_defaults(tmp_path: Path) -> None:
    assert load(written(tmp_path, "")) == Settings()


def test_every_setting_is_written_in_camel_case(tmp_path: Path) -> None:
    path = written(tmp_path, "holdSeconds: 60\npreempt: false\nnames: [volcano]\n")

    assert load(path) == Settings(names=("volcano",), hold_seconds=60, preempt=False)


def test_the_file_overrides_the_names_of_the_command_line(tmp_path: Path) -> None:
    path = written(tmp_path, "holdSeconds: 60\n")

    assert load(path, ("volcano",)).names == ("volcano",)
    assert load(path).names == NAMES


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("holdSecond: 60\n", "holdSecond"),
        ("holdSeconds: soon\n", "holdSeconds"),
        ("holdSeconds: -1\n", "holdSeconds"),
        ("bindsInFlight: 0\n", "bindsInFlight"),
        ("placement: pile\n", "placement"),
        ("weights: {tight: -1}\n", "weights.tight"),
        ("weights: {heavy: 1}\n", "heavy"),
        ("[]\n", "object"),
        ("a: [\n", "settings.yaml"),
        ("holdSeconds: 2026-99-99\n", "settings.yaml"),
        ("names: []\n", "names"),
        ("names: ['']\n", "names"),
        ("holdSeconds: 1\npreempt: true\nholdSeconds: 2\n", "the key holdSeconds is written twice"),
        ("weights: {tight: 1, tight: 0}\n", "the key tight is written twice"),
        ("holdSeconds: .inf\n", "holdSeconds"),
        ("repairSeconds: .nan\n", "repairSeconds"),
        ("starvationAfter: 1.0e+300\n", "starvationAfter"),
        ("weights: {tight: .nan}\n", "weights.tight"),
    ],
)
def test_an_invalid_file_is_an_error_that_names_the_file_and_the_problem(
    tmp_path: Path, text: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        load(written(tmp_path, text))
    assert "settings.yaml" in str(caught.value)


def test_a_file_that_is_not_text_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_bytes(b"holdSeconds: 60 # \xff\xfe\n")

    with pytest.raises(ConfigError, match=r"settings\.yaml"):
        load(path)


def test_settings_that_need_a_restart_stay_and_are_named() -> None:
    old = Settings(names=("muster",), binds_in_flight=8)
    fresh = Settings(names=("volcano",), binds_in_flight=16, hold_seconds=60)

    taken, left = merge_reloaded(old, fresh)

    assert taken == Settings(names=("muster",), binds_in_flight=8, hold_seconds=60)
    assert left == ["names", "bindsInFlight"]
    assert merge_reloaded(old, Settings(names=("muster",), binds_in_flight=8)) == (old, [])


def test_weights_and_placement_are_set_in_the_file(tmp_path: Path) -> None:
    text = "placement: spread\nrackLabel: rack\nweights: {tight: 0, special: 2.5}\n"

    settings = load(written(tmp_path, text))

    assert (settings.placement, settings.rack_label) == ("spread", "rack")
    assert settings.weights == Weights(tight=0, special=2.5)
