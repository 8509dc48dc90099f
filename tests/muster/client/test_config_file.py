"""arena's config file is read and written line by line; unknown lines stay."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from kubekit.errors import ConfigError, UsageError
from muster.cli.verbs import config
from muster.client import config_file


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ARENA_CONFIG", raising=False)
    return tmp_path / ".arena" / "config"


def test_without_a_file_nothing_is_set(file: Path) -> None:
    assert config_file.path() == file
    assert config_file.read() == {}
    assert config_file.switch("gang") is None


def test_keys_are_read_and_comments_are_not(file: Path) -> None:
    file.parent.mkdir()
    file.write_text("# namespace=old\nnamespace = team\n\nodd line\ngang=TRUE\nx=a=b\n")

    assert config_file.read() == {"namespace": "team", "gang": "TRUE", "x": "a=b"}
    assert config_file.switch("gang") is True


def test_a_key_is_set_changed_and_removed_where_it_stands(file: Path) -> None:
    file.parent.mkdir()
    file.write_text("# mine\nnamespace=a\nimagePullSecrets=s\n")

    config_file.write("namespace", "b")
    config_file.write("gang", "true")
    assert file.read_text() == "# mine\nnamespace=b\nimagePullSecrets=s\ngang=true\n"
    config_file.write("imagePullSecrets", None)
    assert file.read_text() == "# mine\nnamespace=b\ngang=true\n"


def test_the_file_named_by_the_environment_comes_first_if_it_exists(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    monkeypatch.setenv("ARENA_CONFIG", str(other))
    config_file.write("namespace", "home")
    assert file.read_text() == "namespace=home\n"

    other.write_text("namespace=elsewhere\n")
    assert config_file.read() == {"namespace": "elsewhere"}


def test_a_file_that_cannot_be_written_is_named(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", read_only)

    with pytest.raises(ConfigError, match=r"config cannot be written: .*Read-only file system"):
        config_file.write("gang", "true")


def test_a_switch_that_is_neither_true_nor_false_is_an_error(file: Path) -> None:
    config_file.write("gang", "maybe")

    with pytest.raises(ConfigError, match="gang=maybe is neither true nor false"):
        config_file.switch("gang")


@pytest.mark.parametrize(("key", "value"), [("a b", "x"), ("", "x"), ("a", "x\ny"), ("#a", "x")])
def test_a_value_that_cannot_be_read_back_is_not_written(file: Path, key: str, value: str) -> None:
    with pytest.raises(UsageError):
        config_file.write(key, value)

    assert not file.exists()


@pytest.mark.parametrize("name", ["Foo_", "a.b", "-a", "", "a" * 64, "../x"])
def test_an_invalid_namespace_is_not_stored(file: Path, name: str) -> None:
    with pytest.raises(UsageError, match="namespace="):
        config.command.main(["set", "--", "namespace", name], standalone_mode=False)

    assert not file.exists()
    config.command.main(["set", "namespace", "team-1"], standalone_mode=False)
    assert config_file.read() == {"namespace": "team-1"}
