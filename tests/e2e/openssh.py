"""The files of an image for MPI over ssh, laid over the host's files.

sshd is the machine's own. Without one, its distribution's package is unpacked once into the user's
cache folder; nothing is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.prerequisites import missing_prerequisite

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "muster" / "openssh"
SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SERVER = """\
Port 22
HostKey /etc/ssh/ssh_host_ed25519_key
PidFile none
UsePAM no
PermitRootLogin yes
"""
# The shell reads no start-up files: those of the machine's user must not matter.
USERS = """\
root:x:0:0:root:/root:/bin/sh
sshd:x:74:65534::/run/sshd:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
CLIENT = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n"


def make_image(folder: Path, programs: Path) -> None:
    """Write ssh client and server, configured as in images for MPI; `programs` go on the PATH."""
    settings = folder / "etc" / "ssh"
    settings.mkdir(parents=True)
    key = settings / "ssh_host_ed25519_key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    (settings / "sshd_config").write_text(f"{SERVER}SetEnv PATH={programs}:{SYSTEM}\n")
    (settings / "ssh_config").write_text(CLIENT)
    shutil.copytree(_sshd(), folder / "usr", dirs_exist_ok=True)
    (folder / "run" / "sshd").mkdir(parents=True)
    (folder / "etc" / "passwd").write_text(USERS)


def _sshd() -> Path:
    """A folder like /usr with sshd, and the libraries of sshd that the machine lacks."""
    if shutil.which("ssh-keygen") is None or shutil.which("ssh") is None:
        missing_prerequisite("ssh", "this machine has no ssh client")
    if not (CACHE / "usr" / "sbin" / "sshd").exists():
        path = shutil.which("sshd", path=SYSTEM)
        if path:
            (CACHE / "usr" / "sbin").mkdir(parents=True, exist_ok=True)
            shutil.copy(path, CACHE / "usr" / "sbin")
        else:
            _unpack("libwrap0", "openssh-server")
    return CACHE / "usr"


def _unpack(*packages: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            subprocess.run(
                ["apt-get", "download", *packages],
                cwd=folder,
                check=True,
                capture_output=True,
                timeout=120,
            )
            for package in sorted(Path(folder).glob("*.deb")):
                subprocess.run(["dpkg", "-x", str(package), str(CACHE)], check=True)
        except (OSError, subprocess.SubprocessError) as error:
            missing_prerequisite(
                "ssh", f"this machine has no sshd, and its package could not be had: {error}"
            )
