"""The keys of a user's jobs, in files that only the user can read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kubekit.errors import ConfigError
from muster.client.home import Home
from muster.sdk.functions import result_keys
from muster.sdk.functions.result_keys import KEEP_SECONDS, ResultKey

UID = "5ca1ab1e-0000-4000-8000-000000000001"
KEY = ResultKey(b"k" * 32, "/shared")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def test_another_process_finds_a_key_by_the_uid_of_the_job(home: Home) -> None:
    result_keys.store(UID, KEY, home)

    assert result_keys.find(UID, home) == KEY
    assert result_keys.find("5ca1ab1e-0000-4000-8000-000000000002", home) is None


def test_the_key_is_in_no_text_about_it() -> None:
    assert "kkk" not in f"{KEY} {KEY!r}"


@pytest.mark.parametrize("uid", ["", ".", "..", "../kubeconfig", "/etc/passwd", "a/b", "a\n"])
def test_a_server_cannot_choose_the_file_by_its_uid(home: Home, uid: str) -> None:
    with pytest.raises(ConfigError, match="an invalid UID"):
        result_keys.store(uid, KEY, home)
    with pytest.raises(ConfigError, match="an invalid UID"):
        result_keys.find(uid, home)

    assert not home.root.exists()


def test_keys_of_jobs_that_are_long_gone_are_removed(home: Home) -> None:
    old, other = "old", "other"
    for uid in (old, other):
        result_keys.store(uid, KEY, home)
    file = home.root / "function-keys" / old
    long_ago = file.stat().st_mtime - KEEP_SECONDS - 60
    os.utime(file, (long_ago, long_ago))

    result_keys.store(UID, KEY, home)

    assert sorted(os.listdir(file.parent)) == [UID, other]


def test_a_file_that_was_written_by_half_is_named(home: Home) -> None:
    result_keys.store(UID, KEY, home)
    file = home.root / "function-keys" / UID
    file.write_bytes(file.read_bytes()[:10])

    with pytest.raises(ConfigError, match=f"{UID} cannot be read"):
        result_keys.find(UID, home)


def test_a_file_that_others_may_open_is_not_used(home: Home) -> None:
    result_keys.store(UID, KEY, home)
    (home.root / "function-keys" / UID).chmod(0o644)

    with pytest.raises(ConfigError, match="other users may open it") as refused:
        result_keys.find(UID, home)

    assert "the result of its job cannot be read any more" in refused.value.hint
