"""Valid image names become directories; all others are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubekit.objects.core import InvalidImageName, check_image_name
from localkube.node.runtime.namespace_runtime import layers_of
from muster.contract.local_cluster_names import IMAGE


@pytest.mark.parametrize(
    "image",
    [
        "",
        IMAGE,
        "python:3.12",
        "tf",
        "a/b__c/d-e.f:v1_2-x",
        "registry.example:5000/team/app@sha256:" + "a" * 64,
        "[::1]:5000/app:1",
        "Host/app",
    ],
)
def test_names_of_images_are_accepted(image: str) -> None:
    check_image_name(image)


@pytest.mark.parametrize(
    "image",
    [
        "/etc",
        "..",
        "a/..",
        "../a",
        "a/../../b",
        ".muster",
        "a//b",
        "Python:3.12",
        "a\0",
        "a b",
        "a\n",
    ],
)
def test_paths_and_other_texts_are_refused(image: str) -> None:
    with pytest.raises(InvalidImageName, match="invalid reference format"):
        check_image_name(image)


def test_the_check_is_linear() -> None:
    check_image_name("a" * 4000)
    with pytest.raises(InvalidImageName):
        check_image_name("a-" * 2000)


def test_an_image_with_a_directory_has_a_layer(tmp_path: Path) -> None:
    (tmp_path / "team" / "app:1").mkdir(parents=True)

    assert layers_of("team/app:1", tmp_path) == [str(tmp_path / "team" / "app:1")]
    assert layers_of("other", tmp_path) == layers_of("", tmp_path) == []
