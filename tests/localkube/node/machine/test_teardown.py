"""What a cluster makes outside its home, and removes with itself."""

from __future__ import annotations

from pathlib import Path

from localkube.node.machine.teardown import make_hidden_directories, remove_hidden_directories


def test_directories_made_to_be_hidden_go_with_the_cluster(tmp_path: Path) -> None:
    data, kube, muster = tmp_path / "data", tmp_path / ".kube", tmp_path / ".muster"
    data.mkdir()
    muster.mkdir()  # the user's own
    make_hidden_directories(data, [str(kube), str(muster)])
    assert kube.is_dir()
    remove_hidden_directories(data)
    assert not kube.exists()
    assert muster.is_dir()
    assert not list(data.iterdir())


def test_a_directory_stays_if_somebody_has_put_a_file_into_it(tmp_path: Path) -> None:
    data, kube = tmp_path / "data", tmp_path / ".kube"
    data.mkdir()
    make_hidden_directories(data, [str(kube)])
    (kube / "config").write_text("{}")
    remove_hidden_directories(data)
    assert (kube / "config").exists()
