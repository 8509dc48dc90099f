"""The program of a reader's pod: it prints versions only after a complete look at the directory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy
import pytest

from kubekit.objects.kinds import decoder_of
from muster.cli import main
from muster.client.models.read_models import MARK, failure_in
from muster.contract.exported_models import Model
from muster.models import model_versions

NOBODY = 65534
Printed = tuple[int, list[str] | None, str]


@pytest.fixture
def volume(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A volume of another user: permissions do not stop root."""
    monkeypatch.setattr(model_versions, "SETTLED", 0)
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        top.chmod(0o755)
        (top / "m").mkdir(mode=0o755)
        try:
            yield top
        finally:
            for folder, _, _ in os.walk(top):
                os.chmod(folder, 0o700)


@pytest.fixture
def printed(volume: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[], Printed]:
    """Exit code, versions (None if none were printed) and error."""

    def run() -> Printed:
        user = os.geteuid()
        if user == 0:
            os.seteuid(NOBODY)
        try:
            code = main.run("muster", ["models", "print-versions", str(volume), "m"])
        finally:
            os.seteuid(user)
        out, err = capsys.readouterr()
        rows = [line.removeprefix(MARK) for line in out.splitlines() if line.startswith(MARK)]
        models = [decoder_of(Model).decode(row) for row in rows]
        found = [row.version for row in models[0].versions] if models else None
        return code, found, failure_in(err.splitlines())

    return run


def export(folder: Path) -> None:
    folder.mkdir(parents=True, mode=0o755)
    numpy.savez(folder / "model.npz", weights=numpy.zeros(4))


def test_an_empty_directory_has_no_versions(printed: Callable[[], Printed]) -> None:
    assert printed() == (0, [], "no answer")


def test_complete_versions_are_printed(volume: Path, printed: Callable[[], Printed]) -> None:
    export(volume / "m" / "1")

    assert printed() == (0, ["1"], "no answer")


@pytest.mark.parametrize(
    ("path", "mode"),
    [
        ("m", 0o000),
        ("m", 0o444),
        ("m/1", 0o000),
        ("m/1", 0o444),
        ("m/1/model.npz", 0o000),
        ("m/1/parts", 0o000),
        ("m/export", 0o000),
    ],
)
def test_what_cannot_be_read_is_an_error_and_no_empty_list(
    volume: Path, printed: Callable[[], Printed], path: str, mode: int
) -> None:
    (volume / "m/export").mkdir()
    export(volume / "m" / "1")
    (volume / "m/1/parts").mkdir()
    (volume / path).chmod(mode)

    code, versions, error = printed()

    assert (code, versions) == (1, None)
    assert f"cannot read {path.removesuffix('/model.npz')}" in error
    assert "Permission denied" in error


def test_a_missing_directory_is_an_error(volume: Path, printed: Callable[[], Printed]) -> None:
    (volume / "m").rmdir()

    assert printed() == (1, None, "there is no directory m in the volume")


def test_a_version_that_is_not_complete_is_an_error(
    volume: Path, printed: Callable[[], Printed]
) -> None:
    (volume / "m" / "2").mkdir()
    (volume / "m" / "2" / "model.npz").write_bytes(b"PK")

    code, versions, error = printed()

    assert (code, versions) == (1, None)
    assert error == "not a complete model after 10 s, or damaged: m/2"


def test_complete_versions_are_printed_beside_one_that_is_not(
    volume: Path, printed: Callable[[], Printed]
) -> None:
    export(volume / "m" / "1")
    (volume / "m" / "2").mkdir()
    (volume / "m" / "2" / "model.npz").write_bytes(b"PK")

    code, versions, error = printed()

    assert (code, versions) == (1, ["1"])
    assert "m/2" in error


def test_a_directory_that_was_not_read_to_its_end_is_no_empty_list(
    volume: Path, printed: Callable[[], Printed], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_versions, "MAX_ENTRIES", 2)
    for name in "abc":
        (volume / "m" / name).touch()

    assert printed() == (1, None, "no version is among the first 10,000 entries of m")


def test_a_link_is_no_version_and_no_error(volume: Path, printed: Callable[[], Printed]) -> None:
    (volume / "m" / "export").symlink_to("/etc")
    (volume / "m" / "1").symlink_to("/etc")

    assert printed() == (0, [], "no answer")
