"""The real kubectl prints the same on both servers."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.side_by_side import side_by_side

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localkube.conformance.conftest import Running

pytestmark = pytest.mark.kube

POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: x}}
spec:
  containers: [{name: c, image: "busybox:1"}]
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 2
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec: {containers: [{name: c, image: "busybox:1", env: [{name: A, value: "1"}]}]}
"""
JOB = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: j}
spec: {tfReplicaSpecs: {Worker: {replicas: 1}}}
"""
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: b}
spec: {minAvailable: 2, selector: {matchLabels: {app: x}}}
"""

TWO_AT_ONCE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: one}
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: two}
"""
SETTINGS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {a: '1', b: '1'}
"""
LABELLED = """
apiVersion: v1
kind: ConfigMap
metadata: {name: one, labels: {app: x}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: two, labels: {app: x}}
"""
READY = '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}'
ROLLED_OUT = (
    '{"status":{"observedGeneration":99,"replicas":7,"updatedReplicas":7,"readyReplicas":7,'
    '"availableReplicas":7}}'
)
RUNNING = '{"status":{"conditions":[{"type":"Running"}]}}'

Command = tuple[str, str]
"""Arguments, and what is given on standard input."""

STORIES: dict[str, list[Command]] = {
    "pods": [
        ("apply -f -", POD),
        ("apply -f -", POD.replace("app: x", "app: z")),
        ("create -f -", POD),
        ("get pods", ""),
        ("get pods -o wide", ""),
        ("get pods --show-labels", ""),
        ("get pods -o name", ""),
        ("get pod p -o yaml", ""),
        ("get pods -o json", ""),
        ("get pods -o jsonpath={.items[*].spec.containers[*].image}", ""),
        ("get pods -o custom-columns=N:.metadata.name,P:.status.phase", ""),
        ("get pods -l app=none", ""),
        ("label pod p more=labels", ""),
        ("label pod p more=other", ""),
        ("annotate pod p a=b", ""),
        ('patch pod p -p {"metadata":{"labels":{"x":"1"}}}', ""),
        ("describe pod p", ""),
        ("get pod none", ""),
        ("delete pod p", ""),
        ("delete pod p --ignore-not-found", ""),
    ],
    "deployments": [
        ("apply -f -", DEPLOYMENT),
        ("apply -f -", DEPLOYMENT),
        ("apply -f -", DEPLOYMENT.replace('"1"', '"2"')),
        ("get deploy", ""),
        ("get deploy -o wide", ""),
        ("scale deploy/d --replicas=4", ""),
        ("set image deploy/d c=busybox:2", ""),
        ("get deploy d -o yaml", ""),
        ("get all", ""),
        ("get rc", ""),
        ("delete -f -", DEPLOYMENT),
    ],
    "services": [
        ("create deployment web --image=python:3 --port=8080", ""),
        ("expose deployment web --port=80 --target-port=8080", ""),
        ("expose deployment web --name=named --port=80 --target-port=http --type=NodePort", ""),
        ("expose deployment web --name=headless --port=80 --cluster-ip=None", ""),
        ("create service clusterip s --tcp=80:8080 --tcp=443:8443", ""),
        ("create service nodeport n --tcp=80:8080 --node-port=30002", ""),
        ("create service loadbalancer l --tcp=80:8080", ""),
        ("create service externalname e --external-name=example.com", ""),
        ("create service clusterip t --tcp=80:8080 --clusterip=10.0.0.150", ""),
        ("create service clusterip u --tcp=80:8080 --clusterip=10.0.0.150", ""),
        ("get svc", ""),
        ("get svc -o wide", ""),
        ("get svc -o yaml", ""),
        ("describe svc web named l", ""),
        ("get svc kubernetes -n default -o jsonpath={.spec.clusterIP}:{.spec.ports[*].port}", ""),
        ("set selector svc web app=other", ""),
        ('patch svc web -p {"spec":{"type":"NodePort"}}', ""),
        ("get svc web", ""),
        ("delete svc web named", ""),
    ],
    "created from flags": [
        ("create configmap c --from-literal=a=b", ""),
        ("create secret generic s --from-literal=a=b", ""),
        ("create serviceaccount a", ""),
        ("create deployment e --image=busybox:1 --port=80 --replicas=3", ""),
        ("create job k --image=busybox:1 -- true", ""),
        ("create role r --verb=get --resource=pods", ""),
        ("create rolebinding r --role=r --serviceaccount=x:y", ""),
        ("create pdb q --selector=a=b --min-available=50%", ""),
        ("create quota u --hard=pods=3", ""),
        ("run x --image=busybox:1 --env=A=B --labels=l=m --restart=Never -- sleep 5", ""),
        ("get cm,secret,deploy,job,role,rolebinding,pdb,pod -o yaml", ""),
        ("get cm c", ""),
        ("get secret s", ""),
        ("get job", ""),
        ("get pdb", ""),
    ],
    "jobs": [
        ("apply -f -", JOB),
        ("get tfjobs", ""),
        ("get tfjob j -o yaml", ""),
        ("describe tfjob j", ""),
        ('patch tfjob j --type=merge -p {"spec":{"schedulerName":"x"}}', ""),
        ("explain tfjob", ""),
        ("explain tfjob.spec.tfReplicaSpecs", ""),
        ("explain tfjob.spec.runPolicy --recursive", ""),
        ("explain pytorchjob.spec.elasticPolicy", ""),
        ("explain mpijob.spec --api-version=kubeflow.org/v1alpha1", ""),
        ("explain jaxjob.status --recursive", ""),
        (f"patch tfjob j --type=merge --subresource=status -p {RUNNING}", ""),
        ("get tfjobs", ""),
        ("apply -f -", BUDGET),
        ("get pdb b", ""),
        ("delete tfjob j", ""),
    ],
    "fields of built-in kinds": [
        ("explain pod", ""),
        ("explain pod.spec --recursive", ""),
        ("explain pods.spec.containers.livenessProbe.httpGet", ""),
        ("explain deployment.spec.strategy", ""),
        ("explain deploy.spec.strategy.rollingUpdate.maxSurge", ""),
        ("explain job.spec.podFailurePolicy --recursive", ""),
        ("explain service.spec.type", ""),
        ("explain pvc.spec.resources", ""),
        ("explain crd.spec.conversion", ""),
        ("explain events --api-version=events.k8s.io/v1", ""),
        ("explain mutatingwebhookconfigurations.webhooks", ""),
        ("explain pod.nonsense", ""),
        ("explain cm --output=plaintext-openapiv2", ""),
        ("explain deploy.spec.strategy --output=plaintext-openapiv2", ""),
        ("explain tfjob.spec --output=plaintext-openapiv2", ""),
        ("create --dry-run=client -f -", TWO_AT_ONCE.replace("metadata:", "nonsense:")),
        ("create -f -", TWO_AT_ONCE.replace("kind: ConfigMap", "kind: ConfigMap\n  binaryData: 5")),
    ],
    "forms of output": [
        ("apply -f -", POD),
        ("get pod p -o go-template={{.metadata.name}}", ""),
        ("get pods -o go-template={{range.items}}{{.metadata.name}}{{end}}", ""),
        ("get pods -o jsonpath={.items[0].metadata.labels.app}", ""),
        ("get pods -o jsonpath-as-json={.items[*].metadata.name}", ""),
        ("get pods -o custom-columns=N:.metadata.name,I:.spec.containers[0].image", ""),
        ("get pods --no-headers", ""),
        ("get pods --sort-by=.metadata.name", ""),
        ("get pods --field-selector=status.phase=Pending -o name", ""),
        ("get pods --selector=app=x -o name", ""),
        ("get pods --show-kind", ""),
        ("get pods -L app", ""),
        ("get pods --chunk-size=1 -o name", ""),
        ("get pod/p --subresource=status -o name", ""),
        ("get pod p --output-watch-events --watch --request-timeout=2s", ""),
        ("get pods -w --request-timeout=2s", ""),
        ("get pods -A --field-selector=metadata.namespace=none-such", ""),
        ("get --raw /healthz", ""),
    ],
    "patches": [
        ("apply -f -", DEPLOYMENT),
        ('patch deploy d -p {"spec":{"replicas":3}}', ""),
        ('patch deploy d --type=merge -p {"spec":{"replicas":4}}', ""),
        ('patch deploy d --type=json -p [{"op":"replace","path":"/spec/replicas","value":5}]', ""),
        ('patch deploy d --type=json -p [{"op":"remove","path":"/spec/none"}]', ""),
        ('patch deploy d --subresource=scale --type=merge -p {"spec":{"replicas":6}}', ""),
        ("get deploy d -o jsonpath={.spec.replicas}", ""),
        ("set env deploy/d B=2", ""),
        ("set resources deploy/d --limits=cpu=1", ""),
        ("get deploy d -o jsonpath={.spec.template.spec.containers}", ""),
        ("label deploy d a=b c=d", ""),
        ("label deploy d a-", ""),
        ("label deploy d c=e --overwrite", ""),
        ("annotate deploy d x=y", ""),
        ("annotate deploy d x-", ""),
        ("scale deploy d --replicas=7 --current-replicas=1", ""),
        ("scale deploy d --replicas=7 --current-replicas=6", ""),
        ("scale deploy none --replicas=1", ""),
        ("rollout status deploy/d --timeout=1s", ""),
        (f"patch deploy d --subresource=status --type=merge -p {ROLLED_OUT}", ""),
        ("rollout status deploy/d --timeout=5s", ""),
        ("get deploy d", ""),
    ],
    "waiting": [
        ("apply -f -", POD),
        ("wait pod/p --for=condition=Ready --timeout=1s", ""),
        (f"patch pod p --subresource=status --type=merge -p {READY}", ""),
        ("wait pod/p --for=condition=Ready --timeout=5s", ""),
        ("wait pod/p --for=jsonpath={.status.phase}=Running --timeout=5s", ""),
        ("get pods", ""),
        ("delete pod p --wait=true", ""),
        ("wait pod/p --for=delete --timeout=5s", ""),
        ("wait pod/none --for=condition=Ready --timeout=1s", ""),
    ],
    "server-side apply": [
        ("apply --server-side -f -", DEPLOYMENT),
        ("apply --server-side -f -", DEPLOYMENT.replace("replicas: 2", "replicas: 3")),
        ("get deploy d -o jsonpath={.spec.replicas}", ""),
        ("apply --server-side -f -", JOB),
        ("apply --server-side -f -", JOB.replace("replicas: 1", "replicas: 2")),
        ("get tfjob j -o jsonpath={.spec}", ""),
        ("apply --dry-run=server -f -", POD),
        ("create --dry-run=server -o yaml -f -", POD),
        ("get pod p", ""),
    ],
    "owners of fields": [
        ("apply --server-side -f -", SETTINGS),
        ("apply --server-side --field-manager=other -f -", SETTINGS.replace("'1'", "'2'")),
        ("get cm c -o yaml --show-managed-fields", ""),
        (
            "apply --server-side --field-manager=other --force-conflicts --dry-run=server -f -",
            SETTINGS.replace("'1'", "'2'"),
        ),
        (
            "apply --server-side --field-manager=other --force-conflicts -f -",
            SETTINGS.replace("a: '1', ", ""),
        ),
        ("apply --server-side -f -", SETTINGS.replace(", b: '1'", "")),
        ("apply --server-side --field-manager=other -f -", SETTINGS.replace("a: '1', b: '1'", "")),
        ("get cm c -o yaml --show-managed-fields", ""),
        ("label cm c a=b", ""),
        ("apply -f -", DEPLOYMENT),
        ("apply -f -", DEPLOYMENT.replace("replicas: 2", "replicas: 3")),
        ("scale deploy/d --replicas=4", ""),
        ("set image deploy/d c=busybox:2", ""),
        ("get deploy d -o yaml --show-managed-fields", ""),
        ("apply --server-side -f -", DEPLOYMENT),
        ("apply --server-side --force-conflicts -f -", DEPLOYMENT),
        ("get deploy d -o yaml --show-managed-fields", ""),
        ("apply view-last-applied deploy/d", ""),
        ("apply --server-side -f -", POD),
        ("get pods --show-managed-fields -o json", ""),
    ],
    "pruning": [
        ("apply --prune -l app=x --prune-allowlist=core/v1/ConfigMap -f -", LABELLED),
        ("get cm -l app=x -o name", ""),
        (
            "apply --prune -l app=x --prune-allowlist=core/v1/ConfigMap -f -",
            LABELLED.partition("---")[0],
        ),
        ("get cm -l app=x -o name", ""),
        ("apply --prune -l app=x -f -", LABELLED),
        (
            "apply --server-side --prune -l app=x --prune-allowlist=core/v1/ConfigMap -f -",
            LABELLED,
        ),
        (
            "apply --prune --all --prune-allowlist=core/v1/Secret --dry-run=server -f -",
            LABELLED.partition("---")[0],
        ),
        ("get cm -l app=x -o name", ""),
        ("apply --server-side --prune --applyset=set -f -", LABELLED),
        (
            "apply --server-side --prune --applyset=set -f -",
            LABELLED.partition("---")[0],
        ),
        ("get cm -l app=x -o name", ""),
        ("get secret set -o yaml --show-managed-fields", ""),
    ],
    "replacing and deleting": [
        ("create -f -", POD),
        ("replace -f -", POD.replace("app: x", "app: y")),
        ("get pods --show-labels", ""),
        ("replace --force -f -", POD),
        ("delete pods -l app=x", ""),
        ("create -f -", DEPLOYMENT),
        ("delete deploy d --cascade=orphan --wait=false", ""),
        ("delete cm,secret --all", ""),
        ("delete cm none --ignore-not-found", ""),
        ("delete cm none", ""),
        ("create -f -", TWO_AT_ONCE),
        ("delete -f -", TWO_AT_ONCE),
    ],
    "descriptions": [
        ("create -f -", DEPLOYMENT),
        ("describe deploy d", ""),
        ("create service clusterip s --tcp=80:80 --clusterip=None", ""),
        ("describe service s", ""),
        ("get service s", ""),
        ("create job k --image=busybox:1 -- true", ""),
        ("describe job k", ""),
        ("create configmap c --from-literal=a=b", ""),
        ("describe cm c", ""),
        ("create pdb q --selector=a=b --min-available=50%", ""),
        ("describe pdb q", ""),
        ("apply -f -", JOB),
        ("describe tfjob j", ""),
    ],
    "rights": [
        ("auth can-i get pods", ""),
        ("auth can-i delete nodes", ""),
    ],
    "mistakes": [
        ("apply -f -", POD.replace("spec:", "spec:\n  nonsense: 1")),
        ("apply -f -", POD.replace("name: p,", "name: P,")),
        ("apply -f -", POD.replace("containers:", "container:")),
        ("get nonsense", ""),
        ("delete pod none", ""),
        ("create configmap c --from-literal=a=b", ""),
        ("create configmap c --from-literal=a=b", ""),
    ],
}  # fmt: skip


def kubectl(binaries: Path, server: Running, home: Path, command: Command, namespace: str) -> str:
    """What a command printed, and its exit code."""
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig), "HOME": str(home)}
    environment["KUBECTL_APPLYSET"] = "true"
    arguments = command[0].split(" ")
    result = subprocess.run(
        [str(binaries / "kubectl"), "-n", namespace, *arguments],
        input=command[1] or None,
        stdin=None if command[1] else subprocess.DEVNULL,
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    printed = f"{result.stdout}{result.stderr}(exit {result.returncode})"
    return _accidents(printed.replace(namespace, "<ns>"))


def _accidents(text: str) -> str:
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<time>", text)
    text = re.sub(r"(?m)^([EIW])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", r"\1 ", text)
    text = re.sub(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d \S+", "<time>", text)
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uid>", text)
    text = re.sub(r'("?[rR]esource ?Version"?: +)"?\d+"?', r"\1<rv>", text)
    text = re.sub(r"(?<![\d.])10\.0\.[1-9]\d*\.\d+", "<address>", text)
    text = re.sub(r"(?<=:)3[0-2]\d{3}(?=/)|(?<=ort: )3[0-2]\d{3}", "<port>", text)
    text = re.sub(r"(?m)(?<=NodePort: ).*\b3[0-2]\d{3}/", "<port>/", text)
    text = re.sub(r"(?m)\b\d+s\b(?=( |$|,))", "<age>", text)
    text = re.sub(r"(?m)^.*(uid|UID): <uid>.*$", "<uid>", text)
    # Null and absent mean the same.
    text = re.sub(r'(?m)^ *"?\w+"?: null,?\n', "", text)
    return re.sub(r"[ \t]+", " ", text)


@pytest.mark.parametrize("story", STORIES)
def test_kubectl_prints_the_same(
    story: str,
    ours: Running,
    real: Running,
    installed: None,
    control_plane_binaries: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    namespace = f"kubectl-{secrets.token_hex(4)}"
    commands = [(f"create namespace {namespace}", ""), *STORIES[story]]
    homes = {server.url: tmp_path_factory.mktemp("home") for server in (real, ours)}

    def printed(server: Running) -> list[str]:
        home = homes[server.url]
        return [kubectl(control_plane_binaries, server, home, c, namespace) for c in commands]

    expected, actual = side_by_side(printed, real, ours)

    for command, want, got in zip(commands[1:], expected[1:], actual[1:], strict=True):
        assert got == want, f"kubectl {command[0]}"
