"""Static files: small, cached, compressed, and packaged with their licences."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess

from muster.web import static_files
from tests.muster.web.site import Site
from tests.prerequisites import missing_prerequisite

MAX_BYTES = 64_000


def test_all_files_together_are_small_enough() -> None:
    sizes = {name: len(file.compressed) for name, file in static_files.files().items()}

    assert {"app.css", "app.js", "vendor/htmx.min.js", "vendor/uPlot.iife.min.js"} <= sizes.keys()
    assert sum(sizes.values()) < MAX_BYTES, sizes


def test_every_vendored_file_has_its_licence() -> None:
    folder = static_files.FOLDER / "vendor"
    names = {re.split(r"[.-]", path.name)[0] for path in folder.iterdir() if path.suffix != ".md"}

    assert {path.name.partition(".")[0] for path in folder.glob("*.LICENSE")} == names


def test_git_ignores_no_file_of_the_dashboard() -> None:
    """The wheel has all files below `src/muster` that git does not ignore."""
    if shutil.which("git") is None:
        missing_prerequisite("git", "there is no git on this machine")
    folder = static_files.FOLDER.parent
    files = [str(path) for path in folder.rglob("*") if "__pycache__" not in path.parts]
    result = subprocess.run(
        ["git", "-C", folder, "check-ignore", *files], capture_output=True, text=True, check=False
    )

    assert (result.stdout, result.returncode) == ("", 1), result.stderr


def test_no_file_names_another_host() -> None:
    """The dashboard works offline."""
    own = {n: f for n, f in static_files.files().items() if not n.startswith("vendor/")}

    for name, file in own.items():
        text = file.body.decode().replace("http://www.w3.org/", "")
        assert not re.search(r"https?://|@import|url\(", text), name


async def test_a_browser_keeps_a_file_until_it_changes(site: Site) -> None:
    url, file = static_files.url("app.css"), static_files.files()["app.css"]
    answer = await site.client.get(url)

    assert "immutable" in answer.headers["Cache-Control"]
    assert answer.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(file.compressed) == await answer.read()
    again = await site.client.get(url, headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status == 304
    assert (await site.client.get("/static/app.css")).headers["Cache-Control"] == "no-cache"


async def test_only_files_of_the_folder_are_served(site: Site) -> None:
    for name in ("../app.py", "%2e%2e/app.py", "nothing.js", "vendor/htmx.LICENSE"):
        assert (await site.client.get(f"/static/{name}")).status == 404
