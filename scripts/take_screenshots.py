"""Write the screenshots of the dashboard in `docs/`: one per page, light and dark.

    python -m scripts.take_screenshots

Run by `make docs`. It starts a local cluster of its own with some jobs. Without chromium it leaves
the pictures as they are.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from tests.e2e.local_cluster import LocalCluster
from tests.muster.web.browser import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FOLDER = Path(__file__).parent.parent / "docs" / "images"
SIZE = {"width": 1200, "height": 640}


TRAIN = """
import math, os, random, sys, time
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

run = "worker-" + os.environ["TF_CONFIG"].partition('"index":')[2].partition("}")[0]
writer = EventFileWriter(os.path.join(sys.argv[1], run))
for step in range(100000):
    loss = 2.3 * math.exp(-step / 90) + 0.2 + random.random() / 8
    rate = 0.1 * 0.99**step
    for tag, value in ("loss", loss), ("accuracy", 1 - loss / 2.7), ("learning rate", rate):
        row = Summary.Value(tag=tag, simple_value=value)
        writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=[row])))
    writer.flush()
    print(f"step {step:5}  loss {loss:.4f}  {random.randint(380, 400)} images/s", flush=True)
    time.sleep(0.5 * (step > 250))
"""


class Screenshot(NamedTuple):
    """A picture of one page."""

    name: str
    path: str
    shows: str
    """A selector that the page has when it is complete."""
    theme: Literal["light", "dark"] = "light"
    height: int = SIZE["height"]


SCREENSHOTS = (
    Screenshot("dashboard-cluster", "/", ".waiting li"),
    Screenshot("dashboard-cluster-dark", "/", ".waiting li", "dark"),
    Screenshot("dashboard-line", "/line", ".line li"),
    Screenshot("dashboard-jobs", "/jobs", "tr:has-text('llama') .state-pending"),
    Screenshot("dashboard-jobs-dark", "/jobs", "tr:has-text('llama') .state-pending", "dark"),
    Screenshot(
        "dashboard-job",
        "/jobs/default/TFJob/resnet-50",
        "main:has(#log b) #scalars canvas",
        height=1280,
    ),
    Screenshot("dashboard-models", "/models", "tr:has-text('mnist')"),
    Screenshot("dashboard-model", "/models/default/model-tfjob-mnist", "#version-2"),
    Screenshot("dashboard-history", "/history?hours=1", "#charts .u-legend >> nth=2"),
    Screenshot("dashboard-submit", "/submit?type=pytorch", "#field-name"),
)


def main() -> None:
    if chromium.executable() is None:
        print("no chromium here: the screenshots stay as they are")
        return
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium.launched() as browser:
        cluster = LocalCluster(Path(folder) / "home")
        project = Path(folder) / "project"  # the form shows where `up` ran
        project.mkdir()
        cluster.arena("up", "--detach", "--nodes=4", "--gpus-per-node=2", cwd=project)
        try:
            submit_jobs(cluster)
            for screenshot in SCREENSHOTS:
                take(browser, cluster, screenshot)
        finally:
            cluster.arena("down", "--now")


EXPORT = """python -c "
import numpy, os
for number in (1, 2):
    os.mkdir(f'/models/{number}')
    numpy.savez(f'/models/{number}/model.npz', weights=numpy.eye(64, 10), bias=numpy.zeros(10))"
"""


def export_models(cluster: LocalCluster) -> None:
    """A job that exports two versions of a model, which are listed."""
    models = cluster.home.with_name("models")
    models.mkdir()
    flags = ("--workers=1", f"--data-dir={models}:/models", "--model-dir=/models")
    cluster.submit("mnist", *flags, command=EXPORT)


def submit_jobs(cluster: LocalCluster) -> None:
    """A cluster as people see it on a normal day."""
    export_models(cluster)
    cluster.submit("tokenise", "--workers=1", command="echo done")
    cluster.submit("ablation", "--workers=1", command="python -c 'raise SystemExit(3)'")
    (cluster.home.parent / "train.py").write_text(TRAIN)
    data = cluster.home.parent
    cluster.submit(
        "resnet-50", "--workers=2", "--gpus=2", "--cpu=1", "--gang", "--tensorboard",
        f"--data-dir={data}", f"--logdir={data}/logs",
        command=f"python {data}/train.py {data}/logs",
    )  # fmt: skip
    cluster.submit(
        "bert-base", "--workers=3", "--gpus=1", "--cpu=500m", "--gang", command="sleep 1000"
    )
    cluster.submit("sweep-lr", "--workers=1", command="sleep 1000")
    cluster.wait_job("sweep-lr", "RUNNING")
    cluster.arena("suspend", "sweep-lr")
    cluster.submit("llama-tune", "--workers=2", "--gpus=2", "--gang", command="sleep 1000")
    cluster.wait_job("resnet-50", "RUNNING")
    cluster.wait_job("bert-base", "RUNNING")
    cluster.wait_job("tokenise", "SUCCEEDED")
    cluster.wait_job("ablation", "FAILED")


def take(browser: Browser, cluster: LocalCluster, screenshot: Screenshot) -> None:
    context = browser.new_context(
        viewport={"width": SIZE["width"], "height": screenshot.height},
        color_scheme=screenshot.theme,
    )
    page: Page = context.new_page()
    address = cluster.arena("open", "--print").stdout.strip()
    page.goto(address)
    page.wait_for_selector("#connection[data-connected=true]")  # the login leads to a page
    page.goto(address.partition("/?")[0] + screenshot.path)
    page.wait_for_selector("#connection[data-connected=true]")
    page.wait_for_selector(screenshot.shows)
    page.screenshot(path=FOLDER / f"{screenshot.name}.png")
    context.close()


if __name__ == "__main__":
    main()
