"""The files of a pod's volumes, and how they are mounted."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from localkube.node import volumes
from localkube.node.env_and_files import PodContext
from localkube.node.pod import MissingReference, Pod
from localkube.node.volumes import VolumeDirectories
from tests.localkube.node.pod_builders import Raw, container, make_pod

BYTES = bytes(range(256))
CONTEXT = PodContext(
    config_maps={"c": {"text": "words"}},
    binaries={"c": {"model": base64.b64encode(BYTES).decode()}},
)


def pod_with(source: Raw) -> Pod:
    """A pod with one volume, named v."""
    return make_pod("p", volumes=[{"name": "v", **source}])


def prepare(home: Path, source: Raw) -> Path:
    """Make the volume; returns its directory."""
    return Path(VolumeDirectories(home).prepare(pod_with(source), CONTEXT)["v"])


def refresh(home: Path, source: Raw, context: PodContext) -> None:
    VolumeDirectories(home).refresh(pod_with(source), context)


@pytest.mark.parametrize("kind", ["nfs", "csi", "ephemeral", "gcePersistentDisk", "iscsi", "image"])
def test_an_unsupported_kind_of_volume_is_rejected(tmp_path: Path, kind: str) -> None:
    with pytest.raises(MissingReference) as raised:
        prepare(tmp_path, {kind: {"server": "s", "path": "/data"}})

    assert str(raised.value) == f"volume v: {kind} is not supported on the local node"
    assert list(tmp_path.iterdir()) == []


def test_an_unsupported_projected_source_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(
        MissingReference, match="clusterTrustBundle is not supported on the local node"
    ):
        prepare(tmp_path, {"projected": {"sources": [{"clusterTrustBundle": {"path": "ca"}}]}})


@pytest.mark.parametrize(
    "source",
    [{"configMap": {"name": "c"}}, {"projected": {"sources": [{"configMap": {"name": "c"}}]}}],
)
def test_binary_data_of_a_config_map_is_among_its_files(tmp_path: Path, source: Raw) -> None:
    folder = prepare(tmp_path, source)

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
def test_volumes_of_api_objects_are_read_only(source: Raw, read_only: bool) -> None:
    mount = {"name": "v", "mountPath": "/v"}
    pod = make_pod("p", container("main", volumeMounts=[mount]), volumes=[{"name": "v", **source}])

    mounts = volumes.mounts(pod, pod.spec.containers[0], {"v": "/somewhere"}, {})

    assert [mount.read_only for mount in mounts] == [read_only]


def test_a_half_written_volume_is_written_again(tmp_path: Path) -> None:
    folder = prepare(tmp_path, {"configMap": {"name": "c"}})
    half = folder.with_name(f".{folder.name}")
    folder.rename(half)
    (half / "text").unlink()

    again = prepare(tmp_path, {"configMap": {"name": "c"}})

    assert sorted(path.name for path in visible(again)) == ["model", "text"]
    assert not half.exists()


def visible(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.name.startswith("..")]


def test_a_refresh_replaces_files_but_not_a_file_that_is_open(tmp_path: Path) -> None:
    source = {"configMap": {"name": "c", "items": [{"key": "text", "path": "deep/text"}]}}
    folder = prepare(tmp_path, source)
    (folder / "token").write_text("secret")
    with (folder / "deep" / "text").open() as open_file:
        refresh(tmp_path, source, PodContext(config_maps={"c": {"text": "new words"}}))

        assert open_file.read() == "words"
    assert (folder / "deep" / "text").read_text() == "new words"
    assert (folder / "token").read_text() == "secret"
    assert len([path for path in folder.iterdir() if path.name.startswith("..")]) == 2


def test_a_refresh_adds_new_keys_and_removes_deleted_keys(tmp_path: Path) -> None:
    source = {"configMap": {"name": "c"}}
    folder = prepare(tmp_path, source)

    refresh(tmp_path, source, PodContext(config_maps={"c": {"new": "words"}}))

    assert [path.name for path in visible(folder)] == ["new"]


def test_files_of_a_deleted_object_stay(tmp_path: Path) -> None:
    source = {"configMap": {"name": "c"}}
    folder = prepare(tmp_path, source)

    refresh(tmp_path, source, PodContext())

    assert (folder / "text").read_text() == "words"


def test_unchanged_files_are_not_written_again(tmp_path: Path) -> None:
    source = {"configMap": {"name": "c"}}
    folder = prepare(tmp_path, source)
    before = (folder / "..data").readlink()

    refresh(tmp_path, source, CONTEXT)

    assert (folder / "..data").readlink() == before


def test_an_interrupted_refresh_is_completed_by_the_next_one(tmp_path: Path) -> None:
    source = {"configMap": {"name": "c"}}
    folder = prepare(tmp_path, source)
    context = PodContext(config_maps={"c": {"text": "words", "new": "word"}})
    refresh(tmp_path, source, context)
    (folder / "new").unlink()
    (folder / "model").symlink_to("..data/model")
    (folder / "..left").mkdir()

    refresh(tmp_path, source, context)

    assert sorted(path.name for path in visible(folder)) == ["new", "text"]
    assert not (folder / "..left").exists()


@pytest.mark.parametrize("name", ["c", "absent"])
def test_an_optional_key_that_is_missing_is_left_out(tmp_path: Path, name: str) -> None:
    items = [{"key": "text", "path": "text"}, {"key": "none", "path": "none"}]
    part = {"configMap": {"name": name, "optional": True, "items": items}}

    alone = prepare(tmp_path / "alone", part)
    projected = prepare(tmp_path / "projected", {"projected": {"sources": [part]}})

    expected = ["text"] if name == "c" else []
    assert [path.name for path in visible(alone)] == expected
    assert [path.name for path in visible(projected)] == expected


def test_files_of_a_projected_volume_have_its_default_mode(tmp_path: Path) -> None:
    items = [{"key": "text", "path": "own", "mode": 0o444}]
    sources = [{"configMap": {"name": "c"}}, {"configMap": {"name": "c", "items": items}}]
    folder = prepare(tmp_path, {"projected": {"sources": sources, "defaultMode": 0o400}})

    modes = {path.name: path.stat().st_mode & 0o777 for path in visible(folder)}
    assert modes == {"text": 0o400, "model": 0o400, "own": 0o444}


def test_a_path_with_a_nul_character_from_a_variable_or_a_volume_is_named(tmp_path: Path) -> None:
    mount = {"name": "v", "mountPath": "/v", "subPathExpr": "$(NAME)"}
    pod = make_pod("p", container(volumeMounts=[mount]))

    with pytest.raises(MissingReference, match='subPath of volume "v" contains the NUL character'):
        volumes.mounts(pod, pod.spec.containers[0], {"v": "/v"}, {"NAME": "a\0b"})
    with pytest.raises(MissingReference, match=r"hostPath /a\\0b contains the NUL character"):
        prepare(tmp_path, {"hostPath": {"path": "/a\0b"}})


def test_a_shared_directory_may_be_in_a_hidden_one(tmp_path: Path) -> None:
    volumes = VolumeDirectories(tmp_path, [str(tmp_path)], [str(tmp_path / "volumes")])
    (tmp_path / "volumes" / "default" / "claim").mkdir(parents=True)
    (tmp_path / "pods").mkdir()

    shown = pod_with({"hostPath": {"path": f"{tmp_path}/volumes/default/claim"}})
    assert volumes.prepare(shown, CONTEXT) == {"v": f"{tmp_path}/volumes/default/claim"}
    for path in ("pods", "volumes", "volumes/../pods", ""):
        with pytest.raises(MissingReference, match="which is hidden from pods"):
            volumes.prepare(pod_with({"hostPath": {"path": f"{tmp_path}/{path}"}}), CONTEXT)
