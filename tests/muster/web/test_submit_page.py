"""`/submit` on a local API server: the form, the manifest, and the job that it creates."""

from __future__ import annotations

import io
import re
from html import unescape
from pathlib import Path

import pytest

from kubekit.objects.kinds import CONFIG_MAPS
from kubekit.objects.meta import Key, Raw
from muster.contract.job_kinds import TFJOBS
from muster.web.access.gate import Policy
from tests.kubekit.objects.yaml_attacks import read_apart
from tests.muster.web.objects import HOSTILE
from tests.muster.web.site import HTML, Site
from tests.waiting import eventually

FORM = {"type": "tfjob", "step": "show", "name": "hello", "command": "python train.py"}
LOCAL = [Policy(directory="/")]
FROM_TEXT = """
import sys
from kubekit.errors import UsageError
from muster.web import submissions
try:
    submissions.from_text(sys.stdin.read(), "", "/")
except UsageError as error:
    print(error)
"""


async def shown(site: Site, status: int = 200, **fields: str) -> str:
    """The page after a step of the form."""
    data = {"csrf": await site.csrf(), "namespace": site.namespace, **FORM, **fields}
    headers = {"Origin": site.origin, **HTML}
    answer = await site.client.post("/submit", data=data, headers=headers)
    text = await answer.text()
    assert answer.status == status, text
    return text


def manifest_of(page: str) -> str:
    match = re.search(r'<textarea name="manifest" hidden>\n(.*?)</textarea>', page, re.DOTALL)
    assert match is not None, page
    return unescape(match[1])


def error_at(page: str, field: str) -> str:
    """The sentence at a field that is marked as invalid, described by it, and focused."""
    match = re.search(rf'<p class="error" id="error-{field}">(.*?)</p>', page, re.DOTALL)
    assert match is not None, page.partition('role="alert"')[2][:400]
    element = re.search(rf'<(input|textarea)[^>]* id="field-{field}"[^>]*>', page)
    assert element is not None
    assert f"error-{field}" in element[0]
    assert 'aria-invalid="true"' in element[0]
    assert "autofocus" in element[0]
    return unescape(re.sub(r"<[^>]*>", "", match[1]))


def find(site: Site, name: str) -> Raw | None:
    return site.api.find(TFJOBS, Key(site.namespace, name))


@pytest.mark.parametrize("policy", LOCAL)
async def test_the_manifest_is_shown_and_then_sent_as_it_was_shown(site: Site) -> None:
    page = await shown(site, workers="2", gang="on", env="LR=0.1\r\nTEXT=a b", tensorboard="on")
    text = manifest_of(page)
    assert "kind: TFJob" in text
    assert "kind: Deployment" in text
    assert find(site, "hello") is None

    answer = await site.post(
        "/submit", {"step": "send", "manifest": text, "namespace": site.namespace}
    )
    assert str(answer.url).endswith(f"/jobs/{site.namespace}/TFJob/hello")
    assert "hello" in await answer.text()
    job = find(site, "hello")
    assert job is not None
    worker = job["spec"]["tfReplicaSpecs"]["Worker"]
    assert worker["replicas"] == 2
    assert {"name": "TEXT", "value": "a b"} in worker["template"]["spec"]["containers"][0]["env"]
    assert job["metadata"]["annotations"]["arena.kubeflow.org/username"]
    assert site.api.find(CONFIG_MAPS, Key(site.namespace, "hello-tfjob")) is not None


@pytest.mark.parametrize("policy", LOCAL)
async def test_errors_stand_at_their_fields_in_the_words_of_the_command(site: Site) -> None:
    site.add_job("taken")
    cases = {
        "name": ({"name": "No_Name"}, "--name 'No_Name' is not a job name"),
        "workers": ({"workers": "two"}, "--workers is 'two'; write a whole number"),
        "command": ({"command": " "}, "the training command is missing"),
        "memory": ({"memory": "4GB"}, "--memory '4GB' is invalid"),
        "working_dir": ({"working_dir": "/nowhere"}, "there is no such directory on this machine"),
        "priority": ({"priority": "highest"}, "there is no priority class highest"),
    }
    for field, (values, sentence) in cases.items():
        assert sentence in error_at(await shown(site, 400, **values), field)
    assert "write a whole number" in error_at(await shown(site, 400, ps="9" * 5000), "ps")
    page = await shown(site, 409, name="taken")
    assert "a job named taken exists already" in error_at(page, "name")
    page = await shown(site, 404, namespace="nowhere-at-all")
    assert "nowhere-at-all" in error_at(page, "namespace")
    assert find(site, "hello") is None


@pytest.mark.parametrize("policy", LOCAL)
async def test_all_fields_that_cannot_be_read_have_their_errors_at_once(site: Site) -> None:
    page = await shown(site, 400, name="", command="", workers="x", env="A=\0")

    assert "the name of the job is missing" in error_at(page, "name")
    for field in ("command", "workers", "env"):
        assert f'id="error-{field}"' in page
    assert "NUL character" in page


async def test_a_form_with_an_error_keeps_its_values(site: Site) -> None:
    page = await shown(site, 400, name=HOSTILE, image="python:3.12", sync_branch="main")

    assert "<script>window" not in page
    assert "<img" not in page
    assert 'value="main"' in page
    assert '<details class="group" open>' in page
    back = await shown(site, 200, step="form", name="other", image="python:3.12")
    assert 'value="other"' in back


async def test_another_cluster_has_no_directory_of_this_machine(site: Site, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret of the dashboard's machine")

    page = await site.get("/submit")
    assert "field-working_dir" not in page
    assert "field-config_file" not in page
    assert "--image" in error_at(await shown(site, 400), "image")
    sources = (f"{tmp_path}", f"file://{tmp_path}")
    syncs = [f"sync_mode: git\nsync_source: {source}" for source in sources]
    for line in (f"config_file: {secret}", *syncs):
        text = f"kind: tf\nname: hello\nimage: python:3.12\ncommand: x\n{line}\n"
        page = await shown(site, 400, type="yaml", manifest=text)
        assert "machine" in error_at(page, "manifest")
        assert "secret of" not in page


async def test_pasted_yaml_is_read_like_submit_f(site: Site) -> None:
    text = (
        "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: pasted}\n"
        "spec:\n  tfReplicaSpecs:\n    Worker:\n      replicas: 1\n      restartPolice: Never\n"
        "      template:\n        spec:\n          containers:\n"
        "          - {name: tensorflow, image: 'python:3.12'}\n"
    )
    page = await shown(site, type="yaml", manifest=text)
    assert "unknown field spec.tfReplicaSpecs.Worker.restartPolice" in page
    assert "name: pasted" in manifest_of(page)

    for wrong, sentence in {
        "": "0 documents, where one job is wanted",
        "kind: [": "line 2",
        "kind: tf\nnam: x": "no such field: nam; did you mean name?",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}": "Pod is not a job",
        text.replace("tfReplicaSpecs", "replicas"): "tfReplicaSpecs",
    }.items():
        assert sentence in error_at(await shown(site, 400, type="yaml", manifest=wrong), "manifest")
    site.add_job("pasted")
    page = await shown(site, 409, type="yaml", manifest=text)
    assert "a job named pasted exists already" in error_at(page, "manifest")
    page = await shown(site, 409, step="send", manifest=text)
    assert "a job named pasted exists already" in error_at(page, "manifest")
    other = text.replace("{name: pasted}", "{name: pasted, namespace: other}")
    page = await shown(site, 400, type="yaml", manifest=other)
    assert "is for the namespace other" in error_at(page, "namespace")


async def test_a_job_can_be_submitted_again(site: Site) -> None:
    site.add_job("train", state="Succeeded")
    address = f"/submit?from={site.namespace}/TFJob/train"
    page = await eventually(lambda: ready(site, address))

    text = unescape(page.partition("<textarea")[2].partition(">\n")[2].partition("</textarea>")[0])
    assert "name: train-2" in text
    for field in ("status", "uid", "resourceVersion", "managedFields", "creationTimestamp"):
        assert f"{field}:" not in text
    assert "name: train-2" in manifest_of(
        await shown(site, type="yaml", manifest=text, namespace="")
    )
    assert "is not a job" in await site.get("/submit?from=train", status=400)


async def ready(site: Site, address: str) -> str:
    answer = await site.client.get(address, headers=HTML)
    return await answer.text() if answer.status == 200 else ""


@pytest.mark.parametrize("policy", [Policy(proxy_hosts=("127.0.0.1",))])
async def test_the_api_refuses_at_the_form(site: Site) -> None:
    bearer = {"Authorization": site.service_account("reader", "tfjobs", "pods"), **HTML}
    page = await site.get("/submit", headers=bearer)
    match = re.search(r'data-csrf="([^"]+)"', page)
    assert match is not None
    data = {**FORM, "image": "python:3.12", "namespace": site.namespace, "csrf": match[1]}
    answer = await site.client.post("/submit", data=data, headers={**bearer, "Origin": site.origin})
    text = unescape(await answer.text())

    assert answer.status == 403, text
    assert 'role="alert"' in text
    alert = text.partition('role="alert"')[2]
    assert f"may not submit jobs in the namespace {site.namespace} (get configmaps)" in alert
    assert f"kubectl create rolebinding reader-edit --namespace {site.namespace}" in alert
    assert 'value="hello"' in text


@pytest.mark.parametrize("policy", [Policy(read_only=True)])
async def test_a_read_only_dashboard_has_no_form(site: Site) -> None:
    assert "/submit" not in await site.get("/jobs")
    assert "There is no page /submit." in await site.get("/submit", status=404)
    answer = await site.post("/submit", FORM)
    assert answer.status in (403, 404)


async def test_a_foreign_or_huge_request_is_not_read(site: Site) -> None:
    data = {**FORM, "csrf": "wrong"}
    answer = await site.client.post("/submit", data=data, headers={"Origin": site.origin})
    assert answer.status == 403
    body = io.BytesIO(b"csrf=x&type=yaml&manifest=" + b"x" * (1 << 20))
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": site.origin, **HTML}
    answer = await site.client.post("/submit", data=body, headers=headers)
    assert answer.status == 413
    assert "larger than 1 MiB" in await answer.text()


@pytest.mark.parametrize("policy", LOCAL)
async def test_a_manifest_that_is_nested_too_deeply_or_too_large_is_an_error_at_its_field(
    site: Site,
) -> None:
    # First in another process, which a stack overflow may end.
    assert "nested deeper than 100 levels" in read_apart(b"[" * 50_000, FROM_TEXT)
    cases = {
        "[" * 50_000: "line 1: it is nested deeper than 100 levels",
        "kind: tf\nenv:\n" + "- a\n" * 20_000: "it has more than 20,000 values",
        '{"a": [' + "1," * 20_000 + "1]}": "it has more than 20,000 values",
        "{}" * 100_000: "it has more than 20,000 values",
    }
    for text, says in cases.items():
        for step in ("show", "send"):
            page = await shown(site, 400, type="yaml", step=step, manifest=text)
            assert says in error_at(page, "manifest")
