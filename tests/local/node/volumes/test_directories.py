"""The files of a pod's volumes, and how they are mounted."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from muster.errors import MissingReference
from muster.local.node.env import PodContext
from muster.local.node.volumes import directories
from muster.local.node.volumes.directories import VolumeDirectories
from tests.local.node.pod_builders import Raw, container, pod

BYTES = bytes(range(256))
AROUND = PodContext(
    config_maps={"c": {"text": "words"}},
    binaries={"c": {"model": base64.b64encode(BYTES).decode()}},
)


def prepared(home: Path, source: Raw, around: PodContext = AROUND) -> Path:
    one = pod("p", volumes=[{"name": "v", **source}])
    return Path(VolumeDirectories(home).prepare(one, around)["v"])


@pytest.mark.parametrize("kind", ["nfs", "csi", "ephemeral", "gcePersistentDisk", "iscsi", "image"])
def test_a_kind_of_volume_that_this_node_does_not_have_is_refused(
    tmp_path: Path, kind: str
) -> None:
    with pytest.raises(MissingReference) as refused:
        prepared(tmp_path, {kind: {"server": "s", "path": "/data"}})

    assert str(refused.value) == f"volume v: {kind} is not supported on the local node"
    assert list(tmp_path.iterdir()) == []


def test_a_projected_source_that_this_node_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        MissingReference, match="clusterTrustBundle is not supported on the local node"
    ):
        prepared(tmp_path, {"projected": {"sources": [{"clusterTrustBundle": {"path": "ca"}}]}})


@pytest.mark.parametrize(
    "source",
    [{"configMap": {"name": "c"}}, {"projected": {"sources": [{"configMap": {"name": "c"}}]}}],
)
def test_binary_data_of_a_config_map_is_among_its_files(tmp_path: Path, source: Raw) -> None:
    folder = prepared(tmp_path, source)

    assert (folder / "model").read_bytes() == BYTES
    assert (folder / "text").read_text() == "words"


@pytest.mark.parametrize(
    ("source", "read_only"),
    [
        ({"configMap": {"name": "c"}}, True),
        ({"secret": {"secretName": "s"}}, True),
        ({"downwardAPI": {}}, True),
        ({"projected": {}}, True),
        ({"persistentVolumeClaim": {"claimName": "c", "readOnly": True}}, True),
        ({"persistentVolumeClaim": {"claimName": "c"}}, False),
        ({"emptyDir": {}}, False),
        ({"hostPath": {"path": "/"}}, False),
    ],
)
def test_volumes_made_of_objects_are_read_only(source: Raw, read_only: bool) -> None:
    mounted = [{"name": "v", "mountPath": "/v"}]
    one = pod("p", container("main", volumeMounts=mounted), volumes=[{"name": "v", **source}])

    found = directories.mounts(one, one.spec.containers[0], {"v": "/somewhere"}, {})

    assert [mount.read_only for mount in found] == [read_only]


def test_a_volume_that_was_only_half_written_is_written_again(tmp_path: Path) -> None:
    folder = prepared(tmp_path, {"configMap": {"name": "c"}})
    half = folder.with_name(f".{folder.name}")
    folder.rename(half)
    (half / "text").unlink()

    again = prepared(tmp_path, {"configMap": {"name": "c"}})

    assert sorted(path.name for path in visible(again)) == ["model", "text"]
    assert not half.exists()


def visible(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.name.startswith("..")]


def test_files_change_with_their_object_and_a_mounted_file_does_not(tmp_path: Path) -> None:
    source = {"configMap": {"name": "c", "items": [{"key": "text", "path": "deep/text"}]}}
    one = pod("p", volumes=[{"name": "v", **source}])
    folder = prepared(tmp_path, source)
    (folder / "token").write_text("secret")
    with (folder / "deep" / "text").open() as mounted:
        VolumeDirectories(tmp_path).refresh(one, PodContext(config_maps={"c": {"text": "others"}}))

        assert mounted.read() == "words"
    assert (folder / "deep" / "text").read_text() == "others"
    assert (folder / "token").read_text() == "secret"
    assert len([path for path in folder.iterdir() if path.name.startswith("..")]) == 2


def test_keys_come_and_go_with_their_object(tmp_path: Path) -> None:
    source = {"configMap": {"name": "c"}}
    one = pod("p", volumes=[{"name": "v", **source}])
    folder = prepared(tmp_path, source)

    VolumeDirectories(tmp_path).refresh(one, PodContext(config_maps={"c": {"new": "words"}}))

    assert [path.name for path in visible(folder)] == ["new"]


def test_an_object_that_is_gone_is_shown_as_it_was(tmp_path: Path) -> None:
    source = {"configMap": {"name": "c"}}
    folder = prepared(tmp_path, source)

    VolumeDirectories(tmp_path).refresh(pod("p", volumes=[{"name": "v", **source}]), PodContext())

    assert (folder / "text").read_text() == "words"


def test_unchanged_files_are_not_written_again(tmp_path: Path) -> None:
    source = {"configMap": {"name": "c"}}
    folder = prepared(tmp_path, source)
    before = (folder / "..data").readlink()

    VolumeDirectories(tmp_path).refresh(pod("p", volumes=[{"name": "v", **source}]), AROUND)

    assert (folder / "..data").readlink() == before


def test_a_change_that_was_cut_short_is_finished_the_next_time(tmp_path: Path) -> None:
    source = {"configMap": {"name": "c"}}
    one = pod("p", volumes=[{"name": "v", **source}])
    folder = prepared(tmp_path, source)
    now = PodContext(config_maps={"c": {"text": "words", "new": "word"}})
    VolumeDirectories(tmp_path).refresh(one, now)
    (folder / "new").unlink()
    (folder / "model").symlink_to("..data/model")
    (folder / "..left").mkdir()

    VolumeDirectories(tmp_path).refresh(one, now)

    assert sorted(path.name for path in visible(folder)) == ["new", "text"]
    assert not (folder / "..left").exists()


@pytest.mark.parametrize("name", ["c", "absent"])
def test_an_optional_key_that_is_missing_is_left_out(tmp_path: Path, name: str) -> None:
    items = [{"key": "text", "path": "text"}, {"key": "none", "path": "none"}]
    part = {"configMap": {"name": name, "optional": True, "items": items}}

    alone = prepared(tmp_path / "alone", part)
    projected = prepared(tmp_path / "projected", {"projected": {"sources": [part]}})

    wanted = ["text"] if name == "c" else []
    assert [path.name for path in visible(alone)] == wanted
    assert [path.name for path in visible(projected)] == wanted


def test_the_mode_of_a_projected_volume_is_that_of_its_files(tmp_path: Path) -> None:
    items = [{"key": "text", "path": "own", "mode": 0o444}]
    sources = [{"configMap": {"name": "c"}}, {"configMap": {"name": "c", "items": items}}]
    folder = prepared(tmp_path, {"projected": {"sources": sources, "defaultMode": 0o400}})

    modes = {path.name: path.stat().st_mode & 0o777 for path in visible(folder)}
    assert modes == {"text": 0o400, "model": 0o400, "own": 0o444}
