"""The script that fetches code, run as the init container runs it, on real repositories."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

import pytest

from kubekit.errors import UsageError
from muster.jobs.build import code_sync
from muster.jobs.build.flags import TensorFlow
from tests.muster.jobs.build.git_repositories import PASSWORD, Repository, commit, git, served


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "project")


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path) -> Iterator[Path]:
    """The scripts' folder for temporary files: nothing may stay in it, not even after a failure."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    yield folder
    assert list(folder.iterdir()) == []


def fetch(
    root: Path,
    source: str,
    variables: Mapping[str, str] = {},
    *,
    keys: Path | None = None,
) -> str:
    """Run the script and return its output. The folder of the secret is that of the test."""
    env = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "TMPDIR": str(root.parent / "temporary"),
        "GIT_SYNC_REPO": source,
        "GIT_SYNC_DEST": code_sync.project(source),
        "GIT_SYNC_ROOT": str(root),
        **variables,
    }
    script = code_sync.GIT_SCRIPT.replace(code_sync.KEYS, str(keys or root / "no-secret"))
    root.mkdir(exist_ok=True)
    process = subprocess.run(
        ["sh", "-c", script], env=env, capture_output=True, text=True, check=False, timeout=60
    )
    if process.returncode:
        raise RuntimeError(process.stderr)
    return process.stdout


@pytest.mark.parametrize("scheme", ["", "file://"])
@pytest.mark.parametrize(
    ("variables", "content"),
    [
        ({}, "two"),
        ({"GIT_SYNC_BRANCH": "side"}, "three"),
        ({"GIT_SYNC_BRANCH": "v1"}, "one"),
        ({"GIT_SYNC_REV": "v1"}, "one"),
        ({"GIT_SYNC_REV": "HEAD", "GIT_SYNC_BRANCH": "side"}, "three"),
        ({"GIT_SYNC_DEPTH": "1", "GIT_SYNC_BRANCH": "side"}, "three"),
    ],
)
def test_the_requested_branch_or_revision_is_checked_out(
    tmp_path: Path, repository: Repository, scheme: str, variables: dict[str, str], content: str
) -> None:
    fetch(tmp_path / "code", f"{scheme}{repository.path}", variables)

    assert (tmp_path / "code" / "project" / "file").read_text() == content


@pytest.mark.parametrize("short", [False, True])
def test_a_commit_is_found_by_its_hash_also_a_short_one(
    tmp_path: Path, repository: Repository, short: bool
) -> None:
    name = repository.third[:8] if short else repository.third
    output = fetch(tmp_path / "code", str(repository.path), {"GIT_SYNC_REV": name})

    assert (tmp_path / "code" / "project" / "file").read_text() == "three"
    assert output == f"{repository.path} at {repository.third}\n"


def test_depth_keeps_history_short_and_without_it_history_is_whole(
    tmp_path: Path, repository: Repository
) -> None:
    source = f"file://{repository.path}"
    fetch(tmp_path / "short", source, {"GIT_SYNC_DEPTH": "1"})
    fetch(tmp_path / "whole", source)

    def count(root: str) -> str:
        return git("rev-list", "--count", "HEAD", at=tmp_path / root / "project")

    assert (count("short"), count("whole")) == ("1", "2")


@pytest.mark.parametrize(("how", "there"), [("", True), ("off", False), ("shallow", True)])
def test_submodules_come_along_unless_switched_off(
    tmp_path: Path, repository: Repository, how: str, there: bool
) -> None:
    outer = Repository(tmp_path / "outer")
    git("submodule", "--quiet", "add", str(repository.path), "inner", at=outer.path)
    commit(outer.path, "with a submodule")
    fetch(tmp_path / "code", str(outer.path), {"GIT_SYNC_SUBMODULES": how})

    assert (tmp_path / "code" / "outer" / "inner" / "file").exists() == there


def test_a_second_run_starts_anew(tmp_path: Path, repository: Repository) -> None:
    fetch(tmp_path / "code", str(repository.path))
    (tmp_path / "code" / "project" / "file").write_text("spoilt")
    fetch(tmp_path / "code", str(repository.path))

    assert (tmp_path / "code" / "project" / "file").read_text() == "two"


@pytest.mark.parametrize(
    "variables", [{"GIT_SYNC_BRANCH": "no-such"}, {"GIT_SYNC_REV": "0123456789"}]
)
def test_a_missing_repository_is_an_error(
    tmp_path: Path, repository: Repository, variables: dict[str, str]
) -> None:
    with pytest.raises(RuntimeError, match=r"no-such|0123456789|single revision"):
        fetch(tmp_path / "code", str(repository.path), variables)


@pytest.fixture
def guarded(tmp_path: Path, repository: Repository) -> Iterator[str]:
    with served(repository, tmp_path / "served") as address:
        yield address


def test_a_password_comes_from_the_files_of_a_secret(tmp_path: Path, guarded: str) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / "username").write_text("me")
    (keys / "password").write_text(PASSWORD)
    fetch(tmp_path / "code", guarded, keys=keys)

    assert (tmp_path / "code" / "project" / "file").read_text() == "two"


def test_a_password_comes_from_the_environment(tmp_path: Path, guarded: str) -> None:
    variables = {"GIT_SYNC_USERNAME": "me", "GIT_SYNC_PASSWORD": PASSWORD}
    fetch(tmp_path / "code", guarded, variables)

    assert (tmp_path / "code" / "project" / "file").read_text() == "two"


def test_without_a_password_code_sync_fails_and_does_not_prompt(
    tmp_path: Path, guarded: str
) -> None:
    with pytest.raises(RuntimeError, match=r"could not read Username|Authentication failed"):
        fetch(tmp_path / "code", guarded)


def test_a_password_in_the_address_is_not_printed(tmp_path: Path, guarded: str) -> None:
    word = quote(PASSWORD, safe="")
    known = guarded.replace("://", f"://me:{word}@")
    output = fetch(tmp_path / "code", known)
    assert output.startswith(f"{guarded} at ")

    with pytest.raises(RuntimeError) as failed:
        fetch(tmp_path / "other", guarded.replace("://", "://me:s3cr3t@"))
    assert "s3cr3t" not in str(failed.value)


@pytest.mark.parametrize("name", ["GIT_SYNC_BRANCH", "GIT_SYNC_REV", "GIT_SYNC_REPO"])
def test_a_source_that_begins_with_a_dash_is_not_a_git_option(
    tmp_path: Path, repository: Repository, name: str
) -> None:
    touched = tmp_path / "touched"
    with pytest.raises(RuntimeError):
        fetch(
            tmp_path / "code", str(repository.path), {name: f"--upload-pack=touch {touched}; false"}
        )

    assert not touched.exists()


@pytest.mark.parametrize(
    "wrong", [{"sync_branch": "-x"}, {"sync_branch": "a b"}, {"sync_revision": "--all"},
              {"sync_source": "-x/project"}],
)  # fmt: skip
def test_values_that_git_could_take_as_options_are_rejected(wrong: dict[str, str]) -> None:
    flags = {"sync_mode": "git", "sync_source": "https://host/p.git"} | wrong
    with pytest.raises(UsageError, match=f"--{next(iter(wrong)).replace('_', '-')} "):
        code_sync.check(TensorFlow(name="j", command=("x",), **flags))  # type: ignore[arg-type]


def test_rsync_is_given_the_source_and_the_key_of_the_secret(
    tmp_path: Path, temporary: Path
) -> None:
    keys, programs = tmp_path / "keys", tmp_path / "bin"
    keys.mkdir()
    programs.mkdir()
    (keys / "ssh-privatekey").write_text("the key")
    rsync = programs / "rsync"
    rsync.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "$RSYNC_RSH"; cat "$HOME/key"\n')
    rsync.chmod(0o755)
    env = {
        "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
        "TMPDIR": str(temporary),
        "SYNC_SOURCE": "me@host:/a folder/project",
        "SYNC_ROOT": "/code",
    }
    script = code_sync.RSYNC_SCRIPT.replace(code_sync.KEYS, str(keys))
    process = subprocess.run(
        ["sh", "-c", script], env=env, check=True, capture_output=True, text=True
    )

    *words, rsh, key = process.stdout.splitlines()
    assert words == ["-avP", "--", "me@host:/a folder/project", "/code"]
    assert "IdentitiesOnly=yes" in rsh
    assert "StrictHostKeyChecking=accept-new" in rsh
    assert key == "the key"


@pytest.mark.parametrize(("end", "place"), [("", "project/file"), ("/", "file")])
def test_a_trailing_slash_copies_the_contents_of_a_directory(
    tmp_path: Path, temporary: Path, end: str, place: str
) -> None:
    source, root, programs = (tmp_path / name for name in ("project", "code", "bin"))
    for folder in (source, root, programs):
        folder.mkdir()
    (source / "file").write_text("x")
    for name in ("sh", "mktemp", "cat", "cp", "rm"):  # and no rsync
        (programs / name).symlink_to(str(shutil.which(name)))
    env = {"PATH": str(programs), "SYNC_SOURCE": f"{source}{end}", "SYNC_ROOT": str(root)}
    env["TMPDIR"] = str(temporary)
    script = code_sync.RSYNC_SCRIPT.replace(code_sync.KEYS, str(tmp_path / "no-secret"))
    subprocess.run(["sh", "-c", script], env=env, check=True)

    assert (root / place).read_text() == "x"
