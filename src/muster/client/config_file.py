"""arena's config file: `$ARENA_CONFIG` if that exists, else `~/.arena/config`.

The file has lines of `key=value`; a line that begins with `#` is a comment. Writing one key keeps
every other line as it was, and a reader never sees half a file.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from kubekit.errors import ConfigError, UsageError

KNOWN = {
    "namespace": "namespace that commands use when -n is not given",
    "imagePullSecrets": "secrets to pull images with, separated by commas",
    "tfjob_role_sequence": "order in which the roles of a TFJob start",
    "gang": "whether submitted jobs start whole or not at all (true), or one by one (false)",
}
"""Every key that is read, and its meaning."""

_KEY = r"[A-Za-z][A-Za-z0-9_.-]*"
_TRUE, _FALSE = ("true", "t", "1", "yes", "on"), ("false", "f", "0", "no", "off")


def parse_bool(text: str) -> bool | None:
    """The meaning of a word for true or false; None for any other word."""
    word = text.lower()
    return True if word in _TRUE else False if word in _FALSE else None


def path() -> Path:
    """The file in use; it need not exist."""
    variable = os.environ.get("ARENA_CONFIG")
    if variable and Path(variable).expanduser().exists():
        return Path(variable).expanduser()
    return Path.home() / ".arena" / "config"


def read(file: Path | None = None) -> dict[str, str]:
    """Every key of the file and its value; empty if there is no file."""
    file = file or path()
    return {key: value for key, value in map(_entry, _lines(file)) if key}


def switch(key: str) -> bool | None:
    """A key that is true or false; None if it is not set."""
    file = path()
    value = read(file).get(key, "")
    flag = parse_bool(value)
    if value and flag is None:
        raise ConfigError(f"{file}: {key}={value} is neither true nor false")
    return flag


def write(key: str, value: str | None, file: Path | None = None) -> None:
    """Set a key, or remove it when the value is None."""
    if not re.fullmatch(_KEY, key) or "\n" in (value or ""):
        raise UsageError(
            f"{key}={value} cannot be stored in a config file", hint="One line: key=value"
        )
    import tempfile  # slow to load, and reading does not need it

    file = file or path()
    lines = _lines(file)
    others = [line for line in lines if _entry(line)[0] != key]
    if value is not None:
        # In the place of its old line, or at the end.
        at = next((i for i, line in enumerate(lines) if _entry(line)[0] == key), len(others))
        others.insert(at, f"{key}={value}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # A new file that replaces the old one: a reader sees all of it or nothing.
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=file.parent, delete=False
        ) as new:
            new.write("".join(f"{line}\n" for line in others))
        Path(new.name).chmod(file.stat().st_mode & 0o777 if file.exists() else 0o644)
        Path(new.name).replace(file)
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error}") from None


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None


def _entry(line: str) -> tuple[str, str]:
    """The key that a line sets and its value; an empty key for a comment or any other line."""
    key, equals, value = line.partition("=")
    if not equals or key.lstrip().startswith("#"):
        return "", ""
    return key.strip(), value.strip()
