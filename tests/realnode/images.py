"""Images as tars, made without a registry: a Debian with Python, and Muster from its Containerfile.

Debian's buildah makes them, with the storage in a folder of the test. The build of Muster's image
calls pip: it gets the machine's certificates and the settings of the machine's pip.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import own_network
from tests.debian_root import base_system
from tests.repository import ROOT

PYTHON_IMAGE = "localhost/muster-test/python:1"
MUSTER_IMAGE = "localhost/muster-test/muster:1"
PACKAGES = ("ca-certificates", "python-is-python3", "python3-venv")
_PYTHON = """\
FROM scratch
ADD base.tar /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
CMD ["sleep", "infinity"]
"""
CERTIFICATES = Path("/etc/ssl/certs")


@dataclass(frozen=True)
class Builder:
    """buildah with the storage in `folder`."""

    folder: Path

    def python_image(self) -> Path:
        """A Debian with Python, which sleeps if it is given no command; also the base of Muster."""
        context = self.folder / "python"
        context.mkdir()
        shutil.copy(base_system(*PACKAGES), context / "base.tar")
        (context / "Containerfile").write_text(_PYTHON)
        self._build(PYTHON_IMAGE, str(context))
        return self._archive(PYTHON_IMAGE)

    def muster_image(self) -> Path:
        """The image of deploy/Containerfile, on the image with Python."""
        settings = self.folder / "pip.conf"
        settings.write_text("[global]\n" + "".join(f"{row}\n" for row in _pip_settings()))
        mounts = {CERTIFICATES: CERTIFICATES, settings: Path("/etc/pip.conf")}
        self._build(
            MUSTER_IMAGE,
            f"--build-arg=BASE={PYTHON_IMAGE}",
            f"--ignorefile={ROOT / '.containerignore'}",
            f"--file={ROOT / 'deploy/Containerfile'}",
            *(f"--volume={source}:{target}:ro" for source, target in mounts.items()),
            str(ROOT),
        )
        return self._archive(MUSTER_IMAGE)

    def configuration(self, image: str) -> dict[str, Any]:
        """The user, the environment and the entry point that the image sets."""
        described: dict[str, Any] = json.loads(self._run("inspect", "--type=image", image))
        configuration: dict[str, Any] = described["OCIv1"]["config"]
        return configuration

    def _build(self, name: str, *words: str) -> None:
        # A chroot in place of a container: commands use the machine's network.
        self._run("build", "--isolation=chroot", "--pull=never", f"--tag={name}", *words)

    def _archive(self, name: str) -> Path:
        tar = self.folder / f"{name.split('/')[-1].split(':')[0]}.tar"
        self._run("push", "--quiet", name, f"docker-archive:{tar}:{name}")
        return tar

    def _run(self, *words: str) -> str:
        storage = [f"--root={self.folder}/storage", f"--runroot={self.folder}/run"]
        # Mounts of a build that is killed end with the namespace.
        command = ["unshare", "--mount", "buildah", *storage, "--storage-driver=overlay", *words]
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            preexec_fn=own_network.leave,
            check=False,
        )
        assert result.returncode == 0, f"buildah {words}\n{result.stdout}{result.stderr}"
        return result.stdout


def _pip_settings() -> list[str]:
    """The lines of pip.conf for settings of the environment that name no directory of wheels."""
    names = {
        "PIP_INDEX_URL": "index-url",
        "PIP_EXTRA_INDEX_URL": "extra-index-url",
        "PIP_TRUSTED_HOST": "trusted-host",
        "PIP_PROXY": "proxy",
    }
    rows = [f"{key} = {os.environ[name]}" for name, key in names.items() if os.environ.get(name)]
    return [f"cert = {CERTIFICATES / 'ca-certificates.crt'}", *rows]
