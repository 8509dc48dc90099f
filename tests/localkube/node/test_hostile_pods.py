"""Whatever a stranger writes into a pod or a slice: the node goes on, and other pods run."""

from __future__ import annotations

import contextlib
from ipaddress import IPv4Network
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from kubekit.objects.core import Service
from kubekit.objects.kinds import PODS, SERVICES, Kind
from kubekit.objects.meta import Key
from localkube.node import env_and_files, pod_status
from localkube.node.container_lifecycle import command_line
from localkube.node.env_and_files import PodContext
from localkube.node.eviction import Disk, DiskUsage, over_limit
from localkube.node.log_archive import LogOwners, job_pod
from localkube.node.network import hosts_file, service_rules
from localkube.node.network.service_addresses import EndpointSlice, service_ports
from localkube.node.pod import MissingReference, Pod
from localkube.node.pod_decision import decide
from muster.models import watcher
from tests import unexpected_errors
from tests.hostile_values import TIMES, counts, one_of, some_of, texts, times
from tests.localkube.node.local_node import LocalNode, needs_namespaces
from tests.localkube.node.pod_builders import NOTHING, NOW, exited, manifest, record, running, shell

Raw = dict[str, Any]

quantities = st.one_of(counts, one_of("1e999999999", "-1", "0.1n", "9" * 999, "1Ei"))
probes = st.fixed_dictionaries(
    {},
    optional={
        "initialDelaySeconds": counts,
        "periodSeconds": counts,
        "timeoutSeconds": counts,
        "failureThreshold": counts,
        "terminationGracePeriodSeconds": counts,
        "tcpSocket": st.fixed_dictionaries({"port": st.one_of(counts, texts)}),
    },
)
containers = st.fixed_dictionaries(
    {
        "name": st.just("main"),
        "image": texts,
        "command": st.lists(texts, max_size=2),
        "env": st.lists(st.fixed_dictionaries({"name": texts, "value": texts}), max_size=2),
        "resources": st.fixed_dictionaries(
            {
                "limits": some_of("cpu", "memory", "ephemeral-storage", values=quantities),
                "requests": some_of("cpu", "memory", values=quantities),
            }
        ),
    },
    optional={"livenessProbe": probes, "readinessProbe": probes},
)
conditions = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(("Ready", "Initialized", "PodScheduled", "²")),
            "status": st.sampled_from(("True", "False")),
            "lastTransitionTime": times,
        }
    ),
    max_size=3,
)
pods = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {
                "name": st.just("p"),
                "namespace": st.just("default"),
                "uid": st.just("uid-p"),
                "labels": some_of("app", "training.kubeflow.org/job-name", "job-name"),
                "annotations": some_of(
                    "muster.dev/model-dir", "muster.dev/model-name", "muster.dev/attempt", "any"
                ),
                "deletionTimestamp": times,
                "deletionGracePeriodSeconds": st.one_of(st.none(), counts),
                "ownerReferences": st.lists(
                    st.fixed_dictionaries(
                        {"kind": texts, "name": texts, "uid": texts, "controller": st.just(True)}
                    ),
                    max_size=1,
                ),
            }
        ),
        "spec": st.fixed_dictionaries(
            {
                "nodeName": st.just("muster-0"),
                "containers": st.tuples(containers),
                "restartPolicy": st.sampled_from(("Always", "Never", "OnFailure")),
                "terminationGracePeriodSeconds": st.one_of(st.none(), counts),
                "activeDeadlineSeconds": st.one_of(st.none(), counts),
                "hostname": texts,
                "subdomain": texts,
                "hostAliases": st.lists(
                    st.fixed_dictionaries({"ip": texts, "hostnames": st.tuples(texts)}), max_size=1
                ),
                "volumes": st.lists(
                    st.fixed_dictionaries(
                        {
                            "name": st.just("v"),
                            "emptyDir": st.fixed_dictionaries({"sizeLimit": quantities}),
                        }
                    ),
                    max_size=1,
                ),
            }
        ),
        "status": st.fixed_dictionaries(
            {
                "phase": st.sampled_from(("", "Pending", "Running", "Failed", "²")),
                "startTime": times,
                "conditions": conditions,
                "podIP": texts,
            }
        ),
    }
).map(lambda raw: msgspec.convert(raw, Pod))
records = st.sampled_from(
    (
        NOTHING,
        record(),
        record(main=running()),
        record(main=exited(1, number=3)),
        record(open=False),
    )
)


@given(pods, records)
def test_a_pod_is_decided_about_and_has_a_status_whatever_its_fields(pod: Pod, known: Any) -> None:
    decision = decide(pod, known, NOW)
    status = pod_status.pod_status(pod, known, {}, "10.0.0.1", NOW)

    assert decision.revisit_in is None or decision.revisit_in == decision.revisit_in  # not NaN
    assert msgspec.json.encode(status)


@given(pods)
def test_what_is_read_of_a_pod_is_a_value_or_one_clear_error(pod: Pod) -> None:
    container = pod.spec.containers[0]
    table = hosts_file.hosts_entries([pod], [], lambda _: "10.0.0.2", lambda _: "")
    hosts_file.render_hosts_file("default", table, pod.spec.host_aliases).encode()
    over_limit(pod, DiskUsage({"v": 1}, {"main": 1}), Disk(100, 10))
    watcher.model_directory(pod)
    watcher.model_name(pod)
    job_pod(pod, LogOwners())
    variables = env_and_files.environment(pod, container, PodContext(), {})
    with contextlib.suppress(MissingReference):
        command_line(container, variables)


slices = st.fixed_dictionaries(
    {
        "metadata": st.just(
            {
                "name": "s",
                "namespace": "default",
                "labels": {"kubernetes.io/service-name": "web"},
            }
        ),
        "addressType": st.just("IPv4"),
        "endpoints": st.lists(
            st.fixed_dictionaries(
                {
                    "addresses": st.lists(
                        st.one_of(texts, st.sampled_from(("10.0.0.9", "127.0.0.1", "1.2.3"))),
                        max_size=2,
                    )
                }
            ),
            max_size=3,
        ),
        "ports": st.lists(
            st.fixed_dictionaries({"port": st.sampled_from((0, 80, -1, 65535, 65536, 2**31))}),
            max_size=2,
        ),
    }
).map(lambda raw: msgspec.convert(raw, EndpointSlice))
WEB = {
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"clusterIP": "10.1.0.5", "ports": [{"port": 80, "protocol": "TCP"}]},
}
NETWORKS = ("b", IPv4Network("10.0.0.0/20"), IPv4Network("10.1.0.0/20"))


@given(
    st.lists(slices, max_size=3),
    st.sampled_from(("10.1.0.6", "fd00::1", "²", "1.2.3")),
    st.sampled_from((0, 80, 70000)),
)
def test_the_kernels_rules_can_be_written_whatever_slices_say(
    written: list[EndpointSlice], address: str, port: int
) -> None:
    spec = {"clusterIP": address, "ports": [{"port": port, "protocol": "TCP"}]}
    other = {"metadata": {"name": "other", "namespace": "default"}, "spec": spec}
    services = [msgspec.convert(body, Service) for body in (WEB, other)]

    ports = service_ports(services, written)

    assert service_rules.table(*NETWORKS, ports)
    assert "10.1.0.5" in {row.address for row in ports}
    assert {e.address for row in ports for e in row.endpoints} <= {"10.0.0.9", "127.0.0.1"}


SLICES: Kind[Raw] = Kind.of("discovery.k8s.io/v1", "EndpointSlice", dict)


def hostile(name: str, **spec: Any) -> Raw:
    body = manifest(name, **spec)
    limits = {"memory": "1e999999999", "cpu": "1e9999", "ephemeral-storage": "1e9999"}
    body["spec"]["containers"][0] |= {"resources": {"limits": limits}, "command": ["sleep", "9"]}
    body["metadata"]["annotations"] = {"muster.dev/model-dir": "/a\nb²", "muster.dev/model": "²"}
    return body


@pytest.mark.slow
@needs_namespaces
async def test_a_healthy_pod_runs_beside_hostile_objects(local: LocalNode) -> None:
    before = unexpected_errors.counted()
    # Real objects that the server accepts: ports that are none, times of the year 1, no limits.
    labels = {"kubernetes.io/service-name": "web"}
    for number, (address, port) in enumerate([("1.2.3", 80), ("10.0.0.9", 70000), ("²", -1)]):
        meta = {"name": f"s{number}", "namespace": "default", "labels": labels}
        rows = {"endpoints": [{"addresses": [address]}], "ports": [{"name": "", "port": port}]}
        await local.client.create(SLICES, {"metadata": meta, "addressType": "IPv4", **rows})
    meta = {"name": "web", "namespace": "default"}
    await local.client.create(SERVICES, {"metadata": meta, "spec": {"ports": [{"port": 80}]}})
    seconds = {"periodSeconds": 2**31 - 1, "timeoutSeconds": 2**31 - 1}
    slow = hostile("slow", terminationGracePeriodSeconds=2**31 - 1)
    slow["spec"]["containers"][0]["livenessProbe"] = {"tcpSocket": {"port": 9}, **seconds}
    memory = {"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1e999"}}
    await local.run(slow, hostile("full", volumes=[memory]))
    state = {"type": "Ready", "status": "True", "lastTransitionTime": TIMES[0]}
    status = {"status": {"conditions": [state], "startTime": TIMES[0]}}
    await local.client.patch(PODS, Key("default", "slow"), status, subresource="status")

    await local.run(shell("healthy", "echo fine"))

    assert (await local.ended("healthy"))["exitCode"] == 0
    await local.phase("slow", "Running")
    await local.client.delete(PODS, Key("default", "slow"), grace=0)
    await local.gone("slow")
    assert unexpected_errors.counted() == before
