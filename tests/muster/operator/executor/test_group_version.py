"""The operator writes Kubernetes' PodGroups in the version that the server serves."""

from __future__ import annotations

import json

import pytest

from kubekit.client.request import Request, Response
from muster.operator.decision_types import Settings
from tests.api_in_memory import ApiInMemory
from tests.muster.operator.simulation import JOB, NS, operating, passes, submit

pytestmark = pytest.mark.looptime
ROOT = "/apis/scheduling.k8s.io"


class NewerServer(ApiInMemory):
    """Kubernetes 1.37: PodGroups in v1beta1, none in v1alpha2."""

    def __init__(self) -> None:
        super().__init__(slow=0)
        self.missing = {"v1alpha2"}

    async def send(self, request: Request) -> Response:
        answers = {
            ROOT: {"versions": [{"groupVersion": "scheduling.k8s.io/v1beta1"}]},
            f"{ROOT}/v1beta1": {
                "resources": [
                    {
                        "name": "podgroups",
                        "kind": "PodGroup",
                        "namespaced": True,
                        "verbs": ["list", "watch"],
                    }
                ]
            },
        }
        if request.path in answers:
            return Response(200, {}, json.dumps(answers[request.path]).encode())
        return await super().send(request)


async def test_a_group_is_created_replaced_and_deleted_in_the_served_version() -> None:
    server = NewerServer()
    path = f"{ROOT}/v1beta1/{NS}/podgroups/j"
    async with operating(server, settings=Settings(gang=True, dialect="native")):
        submit(server)
        await passes()
        group = server.get(path)
        assert group is not None
        assert group["apiVersion"] == "scheduling.k8s.io/v1beta1"
        assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
        server.patch(JOB, {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 3}}}})
        await passes()
        group = server.get(path)
        assert group is not None
        assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 4}}
