"""Versions appear when they are complete; hostile directories lead nowhere and cost little."""

from __future__ import annotations

import io
import json
import os
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest

from muster.contract.exported_models import Signature, Tensor
from muster.models import model_files, model_versions
from muster.models.model_versions import Look, look, remaining


class Directory:
    """A model directory, and looks at it; `settle` lets every look find its files unchanged."""

    def __init__(self, top: Path) -> None:
        self.top, self.last = top, Look()

    def look(self, path: str = "", job: str = "job-1", others: object = ()) -> dict[str, str]:
        self.last = look(str(self.top), path, self.last, job, others)  # type: ignore[arg-type]
        return {row.version: row.format for row in self.last.versions.values()}

    def settle(self, path: str = "") -> dict[str, str]:
        self.look(path)
        return self.look(path)


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory(tmp_path)


def export(folder: Path) -> None:
    folder.mkdir(parents=True)
    numpy.savez(folder / "model.npz", weights=numpy.zeros((20, 4)))


def test_a_version_is_complete_when_two_looks_find_the_same_files(directory: Directory) -> None:
    export(directory.top / "1")

    assert directory.look() == {}
    assert directory.last.unsettled
    assert directory.look() == {"1": "npz"}

    (version,) = directory.last.versions.values()
    assert (version.path, version.file_count, version.job_uid) == ("1", 1, "job-1")
    assert version.tensors == (Tensor("weights", "float64", (20, 4)),)
    assert version.size == (directory.top / "1" / "model.npz").stat().st_size


def test_files_that_still_grow_are_not_a_version(directory: Directory) -> None:
    folder = directory.top / "1"
    folder.mkdir()
    for size in range(1, 5):
        (folder / "model.onnx").write_bytes(b"x" * size)
        assert directory.look() == {}

    assert directory.look() == {"1": "ONNX"}


def test_a_version_in_the_folder_export_is_found_and_half_written_names_are_not(
    directory: Directory,
) -> None:
    export(directory.top / "export" / "7")
    export(directory.top / "export" / ".8.123")
    export(directory.top / "export" / "9-draft")

    assert directory.settle() == {"7": "npz"}


def test_a_version_keeps_the_job_that_made_it(directory: Directory) -> None:
    export(directory.top / "1")
    directory.settle()
    export(directory.top / "2")

    directory.look(job="job-2")
    directory.look(job="job-2")
    makers = {row.version: row.job_uid for row in directory.last.versions.values()}
    assert makers == {"1": "job-1", "2": "job-2"}


def test_a_version_of_another_model_is_not_listed_twice(directory: Directory) -> None:
    export(directory.top / "1")
    info = (directory.top / "1").stat()
    others = {(info.st_dev, info.st_ino)}

    directory.look(others=others)
    assert directory.look(others=others) == {}


def test_deleted_versions_are_noticed(directory: Directory) -> None:
    export(directory.top / "1")
    export(directory.top / "2")
    assert directory.settle() == {"1": "npz", "2": "npz"}

    (directory.top / "2").rename(directory.top / "gone")
    left = remaining(str(directory.top), "", directory.last)
    assert [row.version for row in left.versions.values()] == ["1"]
    assert remaining(str(directory.top / "missing"), "", directory.last).versions == {}


def test_a_model_in_the_directory_itself_has_no_number(directory: Directory) -> None:
    numpy.savez(directory.top / "model.npz", w=numpy.zeros(3))
    (directory.top / "train.py").write_text("pass")
    (directory.top / "data").mkdir()
    (directory.top / "data" / "rows.csv").write_text("1")

    assert directory.settle() == {"latest": "npz"}
    (version,) = directory.last.versions.values()
    assert [file.path for file in version.files] == ["model.npz"]

    numpy.savez(directory.top / "model.npz", w=numpy.zeros(4))
    directory.settle()
    (version,) = directory.last.versions.values()
    assert version.tensors[0].shape == (4,)


def test_links_never_lead_out_of_the_volume(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    export(secret / "1")
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "link").symlink_to(secret)
    (volume / "models").mkdir()
    (volume / "models" / "2").symlink_to(secret / "1")
    (volume / "models" / "3").mkdir()
    (volume / "models" / "3" / "model.npz").symlink_to(secret / "1" / "model.npz")
    directory = Directory(volume)

    with pytest.raises(OSError, match="link"):
        directory.look("link")
    with pytest.raises(OSError, match="secret"):
        directory.look("../secret")
    assert directory.settle("models") == {}


def test_without_openat2_no_link_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.models.model_versions._open_beneath", lambda *_: None)
    export(tmp_path / "a" / "models" / "1")
    (tmp_path / "link").symlink_to(tmp_path / "a")

    assert Directory(tmp_path).settle("a/models") == {"1": "npz"}
    assert Directory(tmp_path).settle("link/models") == {}
    with pytest.raises(OSError, match="leads out"):
        Directory(tmp_path).look("a/../../x")


def test_fifos_and_strange_names_do_not_matter(directory: Directory) -> None:
    folder = directory.top / "1"
    folder.mkdir()
    os.mkfifo(folder / "model.onnx")
    assert directory.settle() == {}

    export(directory.top / "2")
    os.mkfifo(directory.top / "2" / "fifo")
    (directory.top / "2" / "\udcff\x1b[31m<b>.bin").write_bytes(b"")
    assert directory.settle() == {"2": "npz"}
    (version,) = directory.last.versions.values()
    assert all(file.path.encode() for file in version.files)


def test_a_large_directory_is_read_only_in_part(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_versions, "MAX_VERSIONS", 3)
    monkeypatch.setattr(model_versions, "MAX_ENTRIES", 10)
    for number in range(1, 7):
        export(directory.top / str(number))
    (directory.top / "6" / "parts").mkdir()
    for number in range(20):
        (directory.top / "6" / "parts" / str(number)).write_bytes(b"1")

    assert sorted(directory.settle()) == ["4", "5", "6"]
    newest = next(row for row in directory.last.versions.values() if row.version == "6")
    assert (newest.file_count, newest.truncated) == (9, True)
    assert (directory.last.omitted, directory.last.truncated) == (3, False)


@pytest.mark.parametrize("folder", [".", "export"])
def test_a_directory_with_more_entries_than_are_read_says_so(
    directory: Directory, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setattr(model_versions, "MAX_ENTRIES", 5)
    for number in range(1, 5):
        export(directory.top / folder / str(number))
    (directory.top / folder / "others").touch()
    directory.settle()
    assert not directory.last.truncated

    export(directory.top / folder / "5")

    directory.settle()
    assert directory.last.truncated
    assert remaining(str(directory.top), "", directory.last).truncated


def test_folders_that_are_too_deep_are_not_counted_and_the_version_says_so(
    directory: Directory,
) -> None:
    export(directory.top / "1")
    (directory.top / "1" / "a/b/c/d/e/f/g").mkdir(parents=True)
    (directory.top / "1" / "a/b/c/d/e/f/g/part").write_bytes(b"1")

    directory.settle()
    (version,) = directory.last.versions.values()
    assert (version.file_count, version.truncated) == (1, True)


def test_a_version_with_thousands_of_files_is_listed(directory: Directory) -> None:
    folder = directory.top / "1"
    (folder / "assets").mkdir(parents=True)
    for number in range(6_000):
        (folder / "assets" / f"{number}.txt").touch()
    (folder / "saved_model.pb").write_bytes(b"")

    assert directory.settle() == {"1": "SavedModel"}
    (version,) = directory.last.versions.values()
    assert version.file_count == 6_001


def test_the_file_that_describes_the_model_is_found_before_the_bound(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_versions, "MAX_ENTRIES", 30)
    export(directory.top / "1")
    for number in range(29):  # all are looked at, in whatever order the system lists them
        (directory.top / "1" / f"a-{number}").touch()
    (directory.top / "1" / "0").mkdir()
    for number in range(20):
        (directory.top / "1" / "0" / f"b-{number}").touch()

    assert directory.settle() == {"1": "npz"}


def safetensors(header: object, data: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def test_safetensors_tell_their_tensors(directory: Directory) -> None:
    header = {
        "__metadata__": {"format": "pt"},
        "layer.weight": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]},
    }
    (directory.top / "1").mkdir()
    (directory.top / "1" / "model.safetensors").write_bytes(safetensors(header, bytes(12)))

    assert directory.settle() == {"1": "safetensors"}
    (version,) = directory.last.versions.values()
    assert version.tensors == (Tensor("layer.weight", "bfloat16", (2, 3)),)


def npz_bytes() -> bytes:
    buffer = io.BytesIO()
    numpy.savez(buffer, w=numpy.zeros((2, 2)))
    return buffer.getvalue()


DAMAGED: dict[str, Callable[[], bytes]] = {
    "model.npz": lambda: npz_bytes()[:-30],
    "empty.npz": lambda: b"",
    "short.safetensors": lambda: safetensors({"a": {"data_offsets": [0, 100]}}, b"1"),
    "huge.safetensors": lambda: struct.pack("<Q", 1 << 62),
    "text.safetensors": lambda: struct.pack("<Q", 4) + b"[[[[",
    "deep.safetensors": lambda: struct.pack("<Q", 100_000) + b"[" * 100_000,
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_file_that_is_cut_off_is_not_a_version(directory: Directory, name: str) -> None:
    (directory.top / "1").mkdir()
    (directory.top / "1" / name).write_bytes(DAMAGED[name]())

    assert directory.settle() == {}
    assert directory.last.unsettled


def field(number: int, value: bytes | int) -> bytes:
    """A field of a protobuf message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def entry(key: str, value: bytes) -> bytes:
    return field(1, key.encode()) + field(2, value)


def test_a_saved_model_tells_its_signatures(directory: Directory) -> None:
    shape = field(2, field(1, -1)) + field(2, field(1, 3))
    info = field(1, b"x:0") + field(2, 1) + field(3, shape)
    signature = field(1, entry("x", info)) + field(2, entry("y", info))
    signatures = field(5, entry("serving_default", signature))
    graph = field(2, bytes(1_000_000)) + signatures
    (directory.top / "1" / "variables").mkdir(parents=True)
    (directory.top / "1" / "saved_model.pb").write_bytes(field(1, 1) + field(2, graph))
    (directory.top / "1" / "variables" / "variables.index").write_bytes(b"1")

    assert directory.settle() == {"1": "SavedModel"}
    (version,) = directory.last.versions.values()
    tensors = ((Tensor("x", "float32", (-1, 3)),), (Tensor("y", "float32", (-1, 3)),))
    assert version.signatures == (Signature("serving_default", *tensors),)
    assert version.file_count == 2


def test_an_onnx_model_tells_its_inputs_and_outputs(directory: Directory) -> None:
    shape = field(1, field(2, b"batch")) + field(1, field(1, 4))
    value = field(2, field(1, field(1, 7) + field(2, shape)))
    graph = field(1, bytes(100)) + field(2, b"net")
    graph += field(11, field(1, b"x") + value) + field(12, field(1, b"y") + value)
    (directory.top / "1").mkdir()
    (directory.top / "1" / "net.onnx").write_bytes(field(1, 8) + field(7, graph))

    assert directory.settle() == {"1": "ONNX"}
    (version,) = directory.last.versions.values()
    shown = (Tensor("x", "int64", ("batch", 4)),), (Tensor("y", "int64", ("batch", 4)),)
    assert version.signatures == (Signature("net", *shown),)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 100,
        field(2, b"\x0a\xff\xff\xff\xff\x7f"),
        varint(2 << 3 | 2) + varint(1 << 60),
    ],
    ids=["empty", "endless number", "too long", "larger than the file"],
)
def test_a_protobuf_that_cannot_be_read_is_a_version_without_signature(
    directory: Directory, content: bytes
) -> None:
    (directory.top / "1").mkdir()
    (directory.top / "1" / "saved_model.pb").write_bytes(content)

    assert directory.settle() == {"1": "SavedModel"}
    (version,) = directory.last.versions.values()
    assert version.signatures == ()
    assert version.problem == "saved_model.pb is cut off, or its format is not SavedModel"


def test_a_protobuf_with_more_fields_than_are_read_has_no_problem(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_files, "_MAX_FIELDS", 3)
    (directory.top / "1").mkdir()
    (directory.top / "1" / "net.onnx").write_bytes(field(1, b"x") * 4 + field(7, b""))

    assert directory.settle() == {"1": "ONNX"}
    (version,) = directory.last.versions.values()
    assert (version.signatures, version.problem) == ((), "")


def sparse_zip64() -> bytes:
    """The end of an archive whose zip64 record says that the list of members is the whole file."""
    size = 3 << 30
    record = b"PK\x06\x06" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, 1, 1, size, 0)
    locator = b"PK\x06\x07" + struct.pack("<IQI", 0, size, 1)
    return (
        record
        + locator
        + b"PK\x05\x06"
        + struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, 0, 0xFFFFFFFF, 0)
    )


def packed(method: int, size: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive, archive.open("w.npy", "w") as member:
        for _ in range(size >> 20):
            member.write(bytes(1 << 20))
    return buffer.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_DEFLATED])
def test_members_are_never_decompressed_whole(directory: Directory, method: int) -> None:
    (directory.top / "1").mkdir()
    content = packed(method, 64 << 20)
    damaged = content.replace(content[60:70], b"0123456789", 1)
    (directory.top / "1" / "model.npz").write_bytes(damaged if method != 8 else content)
    tracemalloc.start()
    try:
        versions = directory.settle()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert versions == {"1": "npz"}
    (version,) = directory.last.versions.values()
    assert version.tensors == (Tensor("w"),)
    assert peak < 4 << 20


def test_a_list_of_members_of_gigabytes_is_not_read(directory: Directory) -> None:
    (directory.top / "1").mkdir()
    with open(directory.top / "1" / "model.npz", "wb") as file:
        file.seek(3 << 30)  # sparse: takes no disk
        file.write(sparse_zip64())
    tracemalloc.start()
    try:
        versions = directory.settle()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert versions == {"1": "npz"}
    assert peak < 4 << 20


def test_a_large_archive_with_zip64_records_is_read(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    (directory.top / "1").mkdir()
    a, b = numpy.zeros((9, 9)), numpy.ones(3, "int32")
    numpy.savez_compressed(directory.top / "1" / "model.npz", a=a, b=b)

    assert directory.settle() == {"1": "npz"}
    (version,) = directory.last.versions.values()
    assert version.tensors == (Tensor("a", "float64", (9, 9)), Tensor("b", "int32", (3,)))


def test_many_nested_folders_are_read_only_in_part(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_versions, "MAX_ENTRIES", 50)
    export(directory.top / "1")
    for number in range(30):
        for below in range(30):
            (directory.top / "1" / f"n{number}" / str(below)).mkdir(parents=True)

    assert directory.settle() == {"1": "npz"}
    (folder, *_), *_ = model_versions.find_versions(opened := os.open(directory.top, os.O_RDONLY))
    assert model_versions.read_contents(opened, folder).entries <= 60
    os.close(opened)
