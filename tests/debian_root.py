"""A fresh Debian in a directory, and shell lines run in it as root or as an ordinary user.

The lines run in mount and process namespaces of their own whose root is that directory, so they see
only what a new machine has. Not a chroot: in a chroot the kernel allows no user namespaces, and the
local cluster of an ordinary user needs them. The base system is downloaded once, into the user's
cache.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from tests import own_network
from tests.prerequisites import missing_prerequisite

_SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
_SUITE = "bookworm"
_PACKAGES = ("ca-certificates", "sudo")
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_ENTER = """
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mkdir -p former
pivot_root . former
umount -l /former
cd "$3"
exec setpriv --reuid="$2" --regid="$2" --clear-groups --reset-env bash -c "$4"
"""
USER = "someone"


def base_system(*packages: str) -> Path:
    """The archive of a base system with these packages; it is made where it does not exist."""
    if os.geteuid() != 0:
        missing_prerequisite("mmdebstrap", "only root can make a Debian in a directory")
    if shutil.which("mmdebstrap") is None:
        missing_prerequisite("mmdebstrap", "no mmdebstrap (apt-get install mmdebstrap)")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "muster"
    archive = cache / f"debian-{'-'.join((_SUITE, *packages))}.tar"
    if not archive.exists():
        cache.mkdir(parents=True, exist_ok=True)
        partial = archive.with_suffix(".partial.tar")
        include = f"--include={','.join(packages)}"
        words = ["--variant=minbase", include, _SUITE, str(partial), str(_SOURCES)]
        subprocess.run(["mmdebstrap", *words], check=True, preexec_fn=own_network.leave)
        partial.rename(archive)
    return archive


class DebianRoot:
    """One fresh system with a copy of this repository in the home of its users."""

    def __init__(self, folder: Path, repository: Path) -> None:
        self._root = folder
        folder.chmod(0o755)
        subprocess.run(["tar", "-xf", base_system(*_PACKAGES), "-C", folder], check=True)
        shutil.copy("/etc/resolv.conf", folder / "etc/resolv.conf")
        names = f"localhost {socket.gethostname()}"  # the installer of Debian writes it
        (folder / "etc/hosts").write_text(f"127.0.0.1 {names}\n::1 localhost\n")
        if _CERTIFICATES.exists():  # the way to the package registries is the machine's
            shutil.copy(_CERTIFICATES, folder / _CERTIFICATES.relative_to("/"))
        self.run(f"useradd --create-home --shell /bin/bash {USER}", user="root", directory="/")
        (folder / "etc/sudoers.d/all").write_text(f"{USER} ALL=(ALL) NOPASSWD: ALL\n")
        for home, owner in (("root", 0), (f"home/{USER}", 1000)):
            _copy(repository, folder / home / "muster", owner)

    def run(self, script: str, *, user: str, directory: str) -> str:
        """The output of a script; raises with all of it if the script fails."""
        number = "0" if user == "root" else "1000"
        registry = ("PIP_", "SSL_", "UV_", "http_proxy", "https_proxy", "no_proxy")
        env = {key: value for key, value in os.environ.items() if key.startswith(registry)}
        env.pop("PIP_FIND_LINKS", None)  # a directory of this machine
        exports = "".join(f"export {key}={value!r}\n" for key, value in env.items())
        words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", _ENTER, "sh"]
        with tempfile.TemporaryFile("w+") as output:
            result = subprocess.run(
                [*words, self._root, number, directory, exports + script],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=5400,
                preexec_fn=own_network.leave,
                check=False,
            )
            output.seek(0)
            text = output.read()
        if result.returncode:
            raise AssertionError(f"exit code {result.returncode}\n{text}")
        return text


def _copy(repository: Path, target: Path, owner: int) -> None:
    """The files of the repository that git knows or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=repository, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    target.mkdir()
    for name in filter(None, listed):
        if (repository / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(repository / name, target / name)
    for path in (target, *target.rglob("*")):
        os.chown(path, owner, owner)
