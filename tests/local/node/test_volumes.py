"""What a pod's volumes contain, and how they are mounted."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from muster.errors import Missing
from muster.local.node import volumes
from muster.local.node.env import Surroundings
from muster.local.node.volumes import Store
from tests.local.node.builders import Raw, container, pod

BYTES = bytes(range(256))
AROUND = Surroundings(
    config_maps={"c": {"text": "words"}},
    binaries={"c": {"model": base64.b64encode(BYTES).decode()}},
)


def prepared(home: Path, source: Raw, around: Surroundings = AROUND) -> Path:
    one = pod("p", volumes=[{"name": "v", **source}])
    return Path(Store(home).prepare(one, around)["v"])


@pytest.mark.parametrize("kind", ["nfs", "csi", "ephemeral", "gcePersistentDisk", "iscsi", "image"])
def test_a_kind_of_volume_that_this_node_does_not_have_is_refused(
    tmp_path: Path, kind: str
) -> None:
    with pytest.raises(Missing) as refused:
        prepared(tmp_path, {kind: {"server": "s", "path": "/data"}})

    assert str(refused.value) == f"volume v: {kind} is not supported on the local node"
    assert list(tmp_path.iterdir()) == []


def test_a_projected_source_that_this_node_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="clusterTrustBundle is not supported on the local node"):
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
def test_volumes_made_of_objects_are_only_read(source: Raw, read_only: bool) -> None:
    mounted = [{"name": "v", "mountPath": "/v"}]
    one = pod("p", container("main", volumeMounts=mounted), volumes=[{"name": "v", **source}])

    found = volumes.mounts(one, one.spec.containers[0], {"v": "/somewhere"}, {})

    assert [mount.read_only for mount in found] == [read_only]
