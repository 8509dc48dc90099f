"""Custom objects whose definition was changed after they were stored: another version, stricter."""

from __future__ import annotations

from typing import Any

from tests.conformance.cases.definitions import (
    CRDS,
    GROUP,
    NAME,
    OPEN,
    THINGS,
    definition,
    of,
    thing,
    version,
)
from tests.conformance.cases.requests import answered, delete, get, patch, post, put
from tests.conformance.transcript import JSON_PATCH, Case, Step

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
SCHEMA = "/spec/versions/0/schema/openAPIV3Schema"


def stored_in(*names: str) -> Any:
    return lambda reply: reply.body["status"]["storedVersions"] == list(names)


def in_version(name: str) -> str:
    return THINGS.replace("/v1/", f"/{name}/")


def moved(old: str, new: str, old_schema: dict[str, Any], new_schema: dict[str, Any]) -> Case:
    """Objects from before and after their kind's storage version was changed, in both versions."""
    was, now = in_version(old), in_version(new)
    return Case(
        f"objects stored in {old} when {new} is what is stored",
        [
            post(
                CRDS,
                definition(version(old, old_schema), version(new, new_schema, storage=False)),
            ),
            get(was, until=answered(200)),
            get(now, until=answered(200)),
            post(was, thing("a", old, x="1")),
            post(now, thing("b", new, x="1")),
            post(now, thing("c", new, x="1")),
            patch(
                f"{CRDS}/{NAME}",
                [
                    {"op": "replace", "path": "/spec/versions/0/storage", "value": False},
                    {"op": "replace", "path": "/spec/versions/1/storage", "value": True},
                ],
                JSON_PATCH,
            ),
            get(f"{CRDS}/{NAME}", until=stored_in(old, new)),
            post(was, thing("d", old, x="1"), until=answered(201)),
            *(get(f"{path}/{name}") for path in (was, now) for name in "ad"),
            get(was),
            get(now),
            get(now, accept=TABLE),
            get(f"{now}?watch=1&timeoutSeconds=1&resourceVersion=0"),
            put(
                f"{now}/a",
                {
                    **thing("a", new, x="2"),
                    "metadata": {"name": "a", "resourceVersion": "$rv.3"},
                },
            ),
            patch(f"{now}/b", {"spec": {"x": "3"}}),
            patch(f"{was}/b", {"spec": {"x": "4"}}),
            patch(f"{now}/c", {"metadata": {"labels": None}}),
            Step("PUT", f"{now}/d?dryRun=All", {
                "kind": "Thing", "spec": {"x": "5"}, "apiVersion": f"{GROUP}/{new}",
                "metadata": {"name": "d", "resourceVersion": "$rv.8"}}),
            get(f"{now}?watch=1&timeoutSeconds=1&resourceVersion=$rv.8"),
            delete(f"{now}/b"),
            delete(f"{was}/c"),
            delete(f"{CRDS}/{NAME}"),
        ],
        ("crd-at-once", "column-descriptions"),
    )  # fmt: skip


MOVED = [
    moved("v1alpha1", "v1", OPEN, OPEN),
    moved("v1", "v2", OPEN, OPEN),
    moved("v1beta1", "v1", of("x", "old"), of("x", "new")),
]

CASES = [*MOVED]
