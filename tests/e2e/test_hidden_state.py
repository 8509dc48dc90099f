"""Hostile pods do not reach the cluster's state or the user's credentials, whatever they mount.

`up` runs in a directory that contains `$MUSTER_HOME`, the data directory and the user's home, and
every pod looks for the secrets in them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.local_cluster import LocalCluster, remove
from tests.waiting import until

pytestmark = pytest.mark.slow

SECRET = "cluster-secret"
SEARCH = f"grep -rs {SECRET} {{}} && echo reached; echo searched"


class Attacked(LocalCluster):
    """A cluster below `folder`; the secrets are in every directory that pods must not see."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "home")
        self.folder, self.user = folder, folder / "user"
        self.env["HOME"] = str(self.user)
        self.state = folder / "data"

    def prepare_and_start(self) -> None:
        for path in (self.home, self.state, self.user):
            path.mkdir()
            path.chmod(0o700)
            (path / "work").mkdir()
        self.arena("up", "--detach", f"--data-dir={self.state}", cwd=self.folder)
        for path in (self.home, self.state):
            (path / "secret").write_text(SECRET)

    def attack(self, name: str, script: str, *volumes: Any, **fields: Any) -> None:
        """Create a pod with the script, and with volumes as (source, mount) pairs."""
        first = fields.pop("first", None)
        mounts = [{"name": f"v{i}", **mount} for i, (_, mount) in enumerate(volumes)]
        container = {"name": "main", "image": "python:3.12", "command": ["sh", "-c", script]}
        spec: dict[str, Any] = {
            "restartPolicy": "Never",
            "containers": [container | {"volumeMounts": mounts} | fields],
            "volumes": [{"name": f"v{i}", **source} for i, (source, _) in enumerate(volumes)],
        }
        if first:
            planter = container | {"name": "first", "command": ["sh", "-c", first]}
            all_of_it = [{"name": "v0", "mountPath": "/all"}]
            spec["initContainers"] = [planter | {"volumeMounts": all_of_it}]
        meta = {"name": name}
        self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    def log(self, name: str, words: str = "searched") -> str:
        """The pod's log when it has these words."""

        def text() -> str:
            text = self.arena("logs", name, check=False).stdout
            return text if words in text else ""

        return until(text, what=f"{name}: {words}")

    def refusal(self, name: str) -> str:
        """Why the pod's container does not run."""

        def message() -> str:
            for status in self.pod(name).status.container_statuses:
                state = status.state.waiting or status.state.terminated
                if state is not None and state.message:
                    return f"{state.reason}: {state.message}"
            return ""

        return until(message, what=f"{name} is refused")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Attacked]:
    folder = Path(tempfile.mkdtemp())
    attacked = Attacked(folder)
    attacked.prepare_and_start()
    try:
        yield attacked
    finally:
        attacked.down()
        remove(folder)


EMPTY: dict[str, Any] = {"emptyDir": {}}


def host(path: Path | str, kind: str = "") -> dict[str, Any]:
    return {"hostPath": {"path": str(path), "type": kind}}


def test_neither_the_current_directory_nor_the_machine_shows_the_state(cluster: Attacked) -> None:
    cluster.attack("machine", SEARCH.format(cluster.folder))
    around = (host(cluster.folder), {"mountPath": "/around"})
    root = (host("/"), {"mountPath": "/machine"})
    cluster.attack("around", SEARCH.format(f"/around /machine{cluster.folder}"), around, root)

    assert cluster.log("machine") == "searched\n"
    assert cluster.log("around") == "searched\n"


def test_credentials_that_are_made_while_a_pod_runs_stay_hidden(cluster: Attacked) -> None:
    script = f"echo up; while [ ! -e /user/go ]; do sleep 0.02; done; {SEARCH.format('/user')}"
    cluster.attack("late", script, (host(cluster.user), {"mountPath": "/user"}))
    cluster.log("late", "up")

    (cluster.user / ".kube").mkdir(exist_ok=True)
    (cluster.user / ".kube" / "config").write_text(SECRET)
    (cluster.user / "go").touch()

    assert cluster.log("late") == "up\nsearched\n"


def test_a_host_path_inside_hidden_directories_is_refused(cluster: Attacked) -> None:
    link = cluster.folder / "link"
    link.symlink_to(cluster.home)
    paths = {"plain": cluster.home / "work", "linked": link / "work", "itself": cluster.state}
    for name, path in paths.items():
        cluster.attack(name, "ls /v", (host(path), {"mountPath": "/v"}))
    cluster.attack(
        "made", "ls /v", (host(cluster.state / "x", "DirectoryOrCreate"), {"mountPath": "/v"})
    )

    for name, path in paths.items():
        assert f"hostPath {path} is in " in cluster.refusal(name)
    assert "hostPath" in cluster.refusal("made")
    assert not (cluster.state / "x").exists()


def test_an_image_name_is_not_a_path(cluster: Attacked) -> None:
    cluster.attack("image", SEARCH.format("/secret"), image=str(cluster.home))

    assert cluster.refusal("image").startswith("InvalidImageName: ")


def test_a_link_in_a_volume_does_not_lead_a_sub_path_out_of_it(cluster: Attacked) -> None:
    victim = cluster.folder / "victim"
    victim.mkdir()
    mount = {"mountPath": "/v", "subPath": "link"}
    targets = {"absolute": victim, "relative": "../" * 12 + str(victim)[1:], "state": cluster.home}
    for name, target in targets.items():
        cluster.attack(name, "touch /v/mine", (EMPTY, mount), first=f"ln -s {target} /all/link")
    good = "mkdir -p /all/real/deep; ln -s real /all/link; ln -s /all/real/deep/../.. /all/up"
    cluster.attack("good", "touch /v/mine; echo searched", (EMPTY, mount), first=good)

    for name in targets:
        assert 'subPath "link" leads out of its volume' in cluster.refusal(name)
    assert cluster.log("good") == "searched\n"
    assert os.listdir(victim) == []


def test_a_link_in_a_volume_does_not_lead_a_mount_point_out_of_it(cluster: Attacked) -> None:
    victim = cluster.folder / "mounted-over"
    victim.mkdir()
    outer = (EMPTY, {"mountPath": "/v"})
    inner = (EMPTY, {"mountPath": "/v/link/inner"})
    cluster.attack("inner", "true", outer, inner, first=f"ln -s {victim} /all/link")

    # The link leads to the same path in the pod, which is read-only there.
    assert "Read-only file system" in cluster.refusal("inner")
    assert os.listdir(victim) == []


def test_a_mount_path_with_a_nul_character_is_refused_at_the_door(cluster: Attacked) -> None:
    with pytest.raises(AssertionError, match=r"mountPath: Invalid value.*NUL character"):
        cluster.attack("nul", "true", (EMPTY, {"mountPath": "/v\0/../etc"}))
