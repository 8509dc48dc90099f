"""`/jobs/NAMESPACE/KIND/NAME` on a local API server: the page, its changes and its files."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
import yaml

from kubekit.objects.kinds import EVENTS, PODS
from kubekit.objects.meta import Key, Raw
from muster.client.manifests import yaml_writer
from muster.contract.job_kinds import TFJOBS
from muster.web.access.gate import Policy
from tests.muster.web.objects import HOSTILE
from tests.muster.web.site import Site
from tests.muster.web.test_stream import event, subscribe
from tests.muster.web.views.test_job_page import labels

READ_ONLY = pytest.mark.parametrize("policy", [Policy(read_only=True)])


async def shown(site: Site, name: str = "x", *words: str) -> str:
    path = f"/jobs/{site.namespace}/TFJob/{name}"
    return await site.page_with(path, name, *words)


def add_pod(site: Site, job: Raw, name: str = "x-worker-0", value: str = "{}") -> Raw:
    owner = {
        "apiVersion": job["apiVersion"], "kind": job["kind"], "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"], "controller": True,
    }  # fmt: skip
    env = [{"name": "TF_CONFIG", "value": value}, {"name": "TOKEN", "value": "secret-word"}]
    body = {
        "metadata": {"name": name, "labels": labels(), "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "main", "image": "x", "env": env}]},
    }
    return site.api.create(PODS.read_as(dict), body, namespace=site.namespace)


async def test_a_page_shows_replicas_events_and_a_link_for_the_next_submission(site: Site) -> None:
    job = site.add_job("x", state="Running")
    pod = add_pod(site, job)
    subject = {"kind": "Pod", "namespace": site.namespace, "name": "x-worker-0"}
    about = {**subject, "uid": pod["metadata"]["uid"]}
    other = {**subject, "uid": "of-an-older-pod"}
    for name, involved, message in (("a", about, HOSTILE), ("b", other, "not about this one")):
        body = {"metadata": {"name": name}, "involvedObject": involved, "reason": "R"}
        site.api.create(EVENTS, {**body, "message": message}, namespace=site.namespace)
    page = await shown(site, "x", "x-worker-0", "1 event")

    assert "&lt;script&gt;window.hacked" in page
    assert "<script>window" not in page
    assert "not about this one" not in page
    assert f"/submit?from={site.namespace}%2FTFJob%2Fx" in page
    part = await site.part(f"/jobs/{site.namespace}/TFJob/x", "job_events")
    assert part.lstrip().startswith('<section id="job_events"')


async def test_suspend_resume_and_delete_change_the_job(site: Site) -> None:
    uid = site.add_job("x", state="Running")["metadata"]["uid"]
    await shown(site)
    path, key = f"/jobs/{site.namespace}/TFJob/x", Key(site.namespace, "x")

    answer = await site.post(path, {"action": "suspend", "uid": uid})
    assert str(answer.url).endswith(path)  # after the redirect
    assert site.api.get(TFJOBS, key)["spec"]["runPolicy"]["suspend"] is True
    await site.post(path, {"action": "resume", "uid": uid})
    assert site.api.get(TFJOBS, key)["spec"]["runPolicy"]["suspend"] is False
    answer = await site.post(path, {"action": "delete", "uid": uid})
    assert answer.url.path == "/jobs"
    assert site.api.find(TFJOBS, key) is None


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        ({"action": "suspend", "uid": "of-an-older-job"}, 409, "deleted and created again"),
        ({"action": "explode", "uid": ""}, 400, "cannot be changed like this"),
        ({}, 400, "cannot be changed like this"),
    ],
)
async def test_a_change_of_another_job_is_refused(
    site: Site, data: dict[str, str], status: int, words: str
) -> None:
    site.add_job("x", state="Running")
    await shown(site)
    answer = await site.post(f"/jobs/{site.namespace}/TFJob/x", data)

    assert answer.status == status
    assert words in await answer.text()
    assert "runPolicy" not in site.api.get(TFJOBS, Key(site.namespace, "x"))["spec"]


async def test_a_page_cannot_delete_a_pod(site: Site) -> None:
    """Commands take `pod/NAME` for a pod; the name in an address is only ever that of a job."""
    pod = add_pod(site, site.add_job("x"))
    path = f"/jobs/{site.namespace}/TFJob/pod%2Fx-worker-0"
    answer = await site.post(path, {"action": "delete", "uid": pod["metadata"]["uid"]})

    assert answer.status == 404
    assert site.api.find(PODS, Key(site.namespace, "x-worker-0")) is not None


async def test_a_change_needs_the_csrf_token(site: Site) -> None:
    uid = site.add_job("x", state="Running")["metadata"]["uid"]
    answer = await site.post(
        f"/jobs/{site.namespace}/TFJob/x", {"action": "delete", "uid": uid}, csrf="wrong"
    )

    assert answer.status == 403
    assert site.api.find(TFJOBS, Key(site.namespace, "x")) is not None


async def test_a_job_that_has_ended_cannot_be_suspended(site: Site) -> None:
    uid = site.add_job("x", state="Succeeded")["metadata"]["uid"]
    page = await shown(site)
    answer = await site.post(f"/jobs/{site.namespace}/TFJob/x", {"action": "suspend", "uid": uid})

    assert 'data-dialog="suspend-dialog"' not in page
    assert answer.status == 409
    assert "has succeeded already" in await answer.text()


@READ_ONLY
async def test_a_read_only_page_has_no_changes(site: Site) -> None:
    uid = site.add_job("x", state="Running")["metadata"]["uid"]
    page = await shown(site)

    assert "delete-dialog" not in page
    assert "Submit again" not in page
    assert "<form" not in page
    answer = await site.post(f"/jobs/{site.namespace}/TFJob/x", {"action": "delete", "uid": uid})
    assert answer.status == 403


async def test_the_yaml_is_a_file_that_can_be_submitted_again(site: Site) -> None:
    job = site.add_job("x", state="Running")
    await shown(site)
    answer = await site.client.get(f"/jobs/{site.namespace}/TFJob/x/yaml")

    assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''x.yaml"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    text = yaml.safe_load(await answer.text())
    assert text["metadata"] == {"name": "x", "namespace": site.namespace}
    assert text["spec"] == job["spec"]


async def test_the_yaml_of_a_large_job_is_written_in_a_thread(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes seconds for megabytes, and the event loop serves all users."""
    site.add_job("x")
    await shown(site)
    writers: list[threading.Thread] = []

    def dump(_: object) -> str:
        writers.append(threading.current_thread())
        return ""

    monkeypatch.setattr(yaml_writer, "dump", dump)
    await site.client.get(f"/jobs/{site.namespace}/TFJob/x/yaml")
    assert writers
    assert threading.main_thread() not in writers


async def test_the_cluster_spec_of_a_replica_is_readable(site: Site) -> None:
    job = site.add_job("x")
    add_pod(site, job, value='{"cluster":{"worker":["a:1","b:1"]}}')
    add_pod(site, job, "x-worker-1", HOSTILE)
    await shown(site, "x", "x-worker-0", "x-worker-1")
    path = f"/jobs/{site.namespace}/TFJob/x/spec"

    first = await site.get(path)
    assert "&#34;worker&#34;: [\n" in first
    assert "secret-word" not in first
    second = await site.part(f"{path}?replica=x-worker-1", "cluster_spec")
    assert "<script>window" not in second
    assert "window.hacked" in second
    site.add_job("y")
    await shown(site, "y")
    assert "The job has no pods now" in await site.get(path.replace("/x/", "/y/"))


async def test_a_job_without_logs_or_tensorboard_says_so(site: Site) -> None:
    site.add_job("x")
    await shown(site)
    path = f"/jobs/{site.namespace}/TFJob/x"

    assert "has no replicas yet" in await site.get(f"{path}/log", status=404)
    scalars = json.loads(await site.get(f"{path}/scalars"))
    assert scalars == {"charts": [], "problem": "The job has no TensorBoard."}
    assert "There is no TFJob" in await site.get(f"{path}y/log", status=404)


@pytest.mark.parametrize("attempt", ["123456x", "9" * 5000, "-2", "٣x"])
async def test_an_attempt_that_is_not_a_number_counts_as_the_last_one(
    site: Site, attempt: str
) -> None:
    site.add_job("x")
    await shown(site)

    page = await site.get(f"/jobs/{site.namespace}/TFJob/x/log?attempt={attempt}", status=404)
    assert "has no replicas yet" in page


async def test_the_kind_in_an_address_has_any_case(site: Site) -> None:
    site.add_job("x")
    await shown(site)

    page = await site.get(f"/jobs/{site.namespace}/tfjob/x")
    assert f'hx-get="/jobs/{site.namespace}/TFJob/x"' in page
    assert "has no replicas yet" in await site.get(
        f"/jobs/{site.namespace}/tfjob/x/log", status=404
    )


async def test_feeds_of_a_job_that_does_not_exist_end_with_a_sentence(site: Site) -> None:
    topics = {f"{feed}:{site.namespace}/TFJob/nothing/x": "" for feed in ("log", "usage")}
    async with site.client.get("/stream") as answer:
        await subscribe(site, answer, {**topics, "log:": ""})
        errors: dict[str, Any] = {}
        while len(errors) < 3:
            _, data = await event(answer)
            errors[data["topic"]] = data["error"]

    assert all("There is no" in error for error in errors.values())
