"""`/models` in a browser, as the workshop ends:

"The newly created model should be automatically picked up by the Web-UI"
"""

from __future__ import annotations

import subprocess
import tarfile
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Page, expect

from kubekit.objects.meta import Key
from muster.contract.exported_models import File, Maker, Model, Tensor, Version, manifest
from muster.contract.job_kinds import TFJOBS
from tests.e2e.local_cluster import ARENA, EXAMPLES, LocalCluster
from tests.muster.web.objects import HOSTILE, job

pytestmark = pytest.mark.slow

JOB = "training-distributed-user1"
WORKSHOP = f"""
set -euo pipefail
oc() {{ "{ARENA}" "$@"; }}
oc process -f openshift/tf-job_distributed-template.yaml --param JOB_NAME={JOB} \
 --param IMAGE_NAME=training-user1 --param BUCKET=user1 --param WORKERS=2 | oc apply -f -
"""


HOSTILE_SVG = "<svg onload=window.hacked=1>" + HOSTILE
PAGES = (
    "/", "/line", "/jobs", "/history", "/models", "/models/default/bad", "/jobs/default/TFJob/bad",
    "/submit?from=default/TFJob/bad", "/jobs?text=%3Csvg%20onload%3D1%3E",
)  # fmt: skip


def train(cluster: LocalCluster) -> None:
    """The commands of the workshop."""
    command = ["bash", "-c", WORKSHOP]
    subprocess.run(command, cwd=EXAMPLES, env=cluster.env, check=True, timeout=120)


def test_the_newly_created_model_is_picked_up_tried_and_downloaded(
    page: Page, cluster: LocalCluster
) -> None:
    page.get_by_role("link", name="Models").click()
    expect(page.locator("#models")).to_contain_text("No models yet")
    page.evaluate("window.sameDocument = true")

    train(cluster)
    row = page.locator("#models tr", has_text=JOB)
    expect(row.locator(".chip")).to_have_text("1", timeout=60_000)
    model = page.context.new_page()
    model.goto(urljoin(page.url, f"/models/default/model-tfjob-{JOB}"))
    chosen = model.locator("select[name=version]")
    chosen.select_option("1")
    model.get_by_text("1 file").click()
    page.bring_to_front()
    cluster.arena("wait", JOB)
    cluster.arena("delete", JOB)
    train(cluster)
    expect(row.locator(".chip")).to_have_text("2", timeout=60_000)
    assert page.evaluate("window.sameDocument") is True
    model.bring_to_front()
    expect(model.locator("h1")).to_contain_text("version 2")
    expect(chosen.get_by_text("2")).to_have_count(1)
    expect(chosen).to_have_value("1")
    expect(model.locator("#version-1 details")).to_have_attribute("open", "")
    page.bring_to_front()

    cluster.arena("wait", JOB)
    row.get_by_role("link", name=JOB).first.click()
    expect(page.locator("#version-1")).to_contain_text("by an earlier job of this name")
    expect(page.locator("#version-2")).to_contain_text("float64 [20 × 4]")
    page.get_by_role("button", name="Predict").click()
    expect(page.locator("#prediction pre")).to_contain_text("probabilities", timeout=60_000)
    page.get_by_label("Input, as JSON").fill('{"inputs": [[1]]}')
    page.get_by_role("button", name="Predict").click()
    expect(page.locator("#prediction .problem")).to_contain_text("the model takes 20")

    with page.expect_download(timeout=60_000) as download:
        page.get_by_role("button", name="Download version 2").click()
    assert download.value.suggested_filename == f"{JOB}-2.tar"
    with tarfile.open(download.value.path()) as archive:
        assert archive.getnames() == ["2/model.npz"]


def test_hostile_text_of_models_jobs_and_events_runs_on_no_page(
    page: Page, cluster: LocalCluster
) -> None:
    """The fixture fails if a script ran, or if the console says that the browser stopped one."""
    text = HOSTILE_SVG
    version = Version(
        "1", "1", text, files=(File(text, 1),), tensors=(Tensor(text, text, (text,)),)
    )
    model = Model(text, Maker("v1", text, text), "javascript:window.hacked=1", (version,))
    config_map = manifest(model, "default", "bad")
    config_map["metadata"]["labels"] = {"muster.dev/model": "bad"}
    bad = job("bad")
    bad["metadata"] = {"name": "bad", "annotations": {"muster.dev/model-dir": text, "note": text}}
    template = bad["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    template["spec"]["schedulerName"] = "nobody"
    template["spec"]["containers"][0]["env"] = [{"name": "TF_CONFIG", "value": text}]
    cluster.apply(config_map, bad)
    with cluster.client() as client:
        uid = client.get(TFJOBS, Key("default", "bad"))["metadata"]["uid"]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "bad", "namespace": "default"},
        "involvedObject": {"kind": "TFJob", "name": "bad", "namespace": "default", "uid": uid},
        "reason": text[:100], "message": text, "type": "Warning",
    }  # fmt: skip
    cluster.apply(event)
    page.goto(urljoin(page.url, "/models"))
    expect(page.locator("#models")).to_contain_text(text)
    for path in PAGES:
        page.goto(urljoin(page.url, path))
        expect(page.locator("h1")).to_be_visible()
        assert page.locator("main script, main img, main [onload]").count() == 0, path
    page.goto(urljoin(page.url, "/jobs/default/TFJob/bad"))
    expect(page.locator("#job_events")).to_contain_text(text)
