"""What the user lacks to apply a plan, asked of the cluster before anything is applied.

Without this check every object would be refused with its own sentence.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kubekit.request_errors import Forbidden, NotFound
from kubekit.rights import MissingRight, Right, Rule, compact, expand
from muster.client.manifests import apply
from muster.client.manifests.served_kinds import CRD, ServedKinds
from muster.client.target import may, may_do_everything
from muster.jobs.view.units import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.meta import Raw

VERBS = ("create", "patch")
"""What a server-side apply needs."""
SHOWN = 3
ROLE_KINDS = ("ClusterRole", "Role")
HINT = (
    "An administrator of the cluster must run it: with --dry-run it prints the objects for them. "
    "`--debug` lists what is missing."
)
HINT_IN_NAMESPACE = (
    "An administrator adds these rules to a role that you have there, or runs it for you: with "
    "--dry-run it prints the objects."
)


class NotAllowed(Forbidden):
    """The user may not install; `missing` has a sentence for each rule."""

    def __init__(self, message: str, missing: Sequence[str], *, in_namespace: bool) -> None:
        hint = HINT_IN_NAMESPACE if in_namespace else HINT
        super().__init__(message, status=403, hint=hint)
        self.missing = missing
        self.in_namespace = in_namespace
        """Whether all that is missing belongs to namespaces: their administrators want to know."""


def check_rights(client: BlockingClient, objects: Sequence[Raw]) -> None:
    """Raise NotAllowed, with one sentence, if the user may not apply all of these objects."""
    if may_do_everything(client):
        return
    in_namespace = not any(row["kind"] in ("ClusterRole", "Namespace", CRD) for row in objects)
    missing = _missing(client, objects)
    if missing and not in_namespace:
        raise _not_allowed(missing, [], in_namespace=False)
    refused, sentences = [], []
    for role in objects:
        if role["kind"] in ROLE_KINDS and (error := _refusal(client, role)):
            refused.append(role)
            sentences += _not_granted(client, role) or [str(error)]
    if missing:
        raise _not_allowed(missing, sentences, in_namespace=in_namespace)
    if refused:
        raise NotAllowed(
            f"you lack the rights that you would grant to Muster, in {count(len(refused), 'role')}",
            sentences,
            in_namespace=in_namespace,
        )


def _refusal(client: BlockingClient, role: Raw) -> Forbidden | None:
    """Why the server would refuse a role: nobody can grant more than they have."""
    send = partial(apply.apply_object, force=True, dry_run=True)
    results = apply.send_all(client, [apply.ReadObject(role, "")], "", send, dry_run=True)
    return next((row for row in results if isinstance(row, Forbidden)), None)


def _not_granted(client: BlockingClient, role: Raw) -> list[str]:
    """A sentence for each rule of a role that the user lacks; the server names only some."""
    namespace = role["metadata"].get("namespace", "")
    if not namespace:
        return []
    rules = (
        Rule(
            tuple(row["apiGroups"]),
            tuple(row["resources"]),
            tuple(row["verbs"]),
            tuple(row.get("resourceNames", ())),
        )
        for row in role["rules"]
    )
    lacking = [right for right in expand(rules) if not may(client, right, namespace)]
    return _sentences(lacking, namespace)


def _sentences(rights: Iterable[Right], namespace: str) -> list[str]:
    where = f" in the namespace {namespace}" if namespace else ""
    return [f"{MissingRight('you', rule)}{where}" for rule in compact(rights)]


def _missing(client: BlockingClient, objects: Iterable[Raw]) -> dict[str, list[Right]]:
    """The missing rights by namespace; without one, on objects of the whole cluster."""
    served, missing = ServedKinds(client), dict[str, list[Right]]()
    needed = dict.fromkeys(
        (row["apiVersion"], row["kind"], row["metadata"].get("namespace", "")) for row in objects
    )
    for api_version, name, namespace in needed:
        try:
            kind = served.find(api_version, name)
        except NotFound:
            continue  # applying it says so
        for verb in VERBS:
            right = Right(verb, kind.group, kind.plural)
            if not may(client, right, namespace):
                missing.setdefault(namespace, []).append(right)
    return missing


def _not_allowed(
    missing: dict[str, list[Right]], others: Sequence[str], *, in_namespace: bool
) -> NotAllowed:
    resources = list(dict.fromkeys(right.resource for rows in missing.values() for right in rows))
    shown = ", ".join(resources[:SHOWN])
    rest = f" and {len(resources) - SHOWN} other kinds" if len(resources) > SHOWN else ""
    sentences = [row for namespace, rows in missing.items() for row in _sentences(rows, namespace)]
    return NotAllowed(
        f"you lack the rights to install Muster: to create and change {shown}{rest}",
        [*sentences, *others],
        in_namespace=in_namespace,
    )
