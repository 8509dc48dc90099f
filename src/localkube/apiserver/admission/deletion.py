"""Delete of any kind: the object is removed, or marked as being deleted until it can be removed.

Finalizers, the grace period of a pod and rules of the kind (a namespace must be empty) hold the
removal back. The update that takes the last of them away removes the object.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from kubekit.objects.meta import MAX_SECONDS, timestamp
from localkube.apiserver import api_errors, causes
from localkube.apiserver.http import bodies
from localkube.apiserver.schema.decoding import check_shape

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from localkube.apiserver.causes import Causes
    from localkube.apiserver.http.requests import Call
    from localkube.apiserver.resource import Resource

_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"
_POLICIES = ("Foreground", "Background", "Orphan")


class Deletion(NamedTuple):
    """The effect of a delete request: `obj` is removed, or stays in this new state."""

    remove: bool
    obj: Raw
    changed: bool = True


def on_delete(resource: Resource, obj: Raw, options: Raw, now: datetime) -> Deletion:
    """Remove the object, or mark it and wait."""
    rules, meta = resource.strategy.deletion, dict(obj["metadata"])
    marked = obj | {"metadata": meta}
    finalizers = _finalizers_for(meta, options)
    grace = rules.grace(obj, options) if rules.grace else 0
    first = rules.marked_first and "deletionTimestamp" not in meta
    if not (grace > 0 or finalizers or first or rules.blocks_removal(obj)):
        if rules.grace:  # the last state of a pod shows when it was deleted
            _mark(resource, meta, now, 0)
        return Deletion(remove=True, obj=marked)
    if finalizers:
        meta["finalizers"] = finalizers
    if "deletionTimestamp" in meta:
        # A second request can shorten the grace period, never extend it.
        shorter = grace < meta.get("deletionGracePeriodSeconds", 0)
        if shorter:
            sooner = timedelta(seconds=meta["deletionGracePeriodSeconds"] - grace)
            when = datetime.fromisoformat(meta["deletionTimestamp"]) - sooner
            meta |= {"deletionTimestamp": timestamp(when), "deletionGracePeriodSeconds": grace}
        return Deletion(remove=False, obj=marked, changed=shorter or marked != obj)
    _mark(resource, meta, now, grace)
    rules.on_marked(marked)
    return Deletion(remove=False, obj=marked)


def _mark(resource: Resource, meta: Raw, now: datetime, grace: int) -> None:
    """Record that the object is being deleted, and when its grace period ends."""
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = timestamp(now + timedelta(seconds=grace))
        if resource.strategy.generation != "none":
            meta["generation"] = meta.get("generation", 0) + 1
    meta["deletionGracePeriodSeconds"] = grace


def can_be_removed(resource: Resource, obj: Raw) -> bool:
    """Whether an object is being deleted and nothing holds its removal back."""
    meta = obj["metadata"]
    return (
        "deletionTimestamp" in meta
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
        and not resource.strategy.deletion.blocks_removal(obj)
    )


def _finalizers_for(meta: Raw, options: Raw) -> list[str]:
    finalizers = list(meta.get("finalizers") or ())
    policy, orphan = options.get("propagationPolicy"), options.get("orphanDependents")
    if policy is None and orphan is None:
        return finalizers
    policy = policy or ("Orphan" if orphan else "Background")
    # The garbage collector sees these finalizers, deletes or orphans the dependents and removes it.
    own = {"Foreground": [_FOREGROUND], "Orphan": [_ORPHAN]}.get(policy, [])
    return [*(f for f in finalizers if f not in (_FOREGROUND, _ORPHAN)), *own]


# -- the request ---------------------------------------------------------------------------------


def check_deletable(call: Call) -> None:
    """Reject the deletion of a protected object."""
    resource = call.resource
    if call.route.name in resource.strategy.deletion.protected:
        why = f"this {resource.singular} may not be deleted"
        raise api_errors.forbidden(resource.group, resource.plural, call.route.name, why)


def set_default_propagation(call: Call, options: Raw) -> None:
    """Orphan the dependents, with a warning, if the kind does so and the options do not say."""
    # batch/v1 Jobs leave their pods behind by default; kubectl always sends a policy.
    warning = call.resource.strategy.deletion.orphan_warning
    no_policy = options.get("propagationPolicy") is None and options.get("orphanDependents") is None
    if warning and no_policy:
        options["propagationPolicy"] = "Orphan"
        call.warn(warning)


def delete_options(call: Call) -> Raw:
    """The options of a delete request, from its body and its query."""
    options = bodies.read(call.body, call.content_type) if call.body.strip() else {}
    if options.get("kind") not in (None, "", "DeleteOptions"):
        raise api_errors.bad_request(f"{options['kind']} cannot be handled as a DeleteOptions")
    check_shape("v1", "DeleteOptions", options)
    grace = call.number("gracePeriodSeconds")
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    if call.dry_run:
        options["dryRun"] = ["All"]
    if "propagationPolicy" in call.query:
        options["propagationPolicy"] = call.query["propagationPolicy"]
    api_errors.raise_if_invalid("meta.k8s.io", "DeleteOptions", "", _check_options(options))
    return options


def _check_options(options: Raw) -> Causes:
    policy, dry_run = options.get("propagationPolicy"), options.get("dryRun") or []
    if policy is not None and options.get("orphanDependents") is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        yield causes.invalid("propagationPolicy", policy, detail)
    if policy not in (None, *_POLICIES):
        yield causes.not_supported("propagationPolicy", policy, (*_POLICIES, "nil"))
    if set(dry_run) - {"All"}:
        yield causes.not_supported("dryRun", dry_run, ("All",))
    grace = options.get("gracePeriodSeconds")
    if grace is not None and grace > MAX_SECONDS:
        why = f"must be less than or equal to {MAX_SECONDS}"
        yield causes.invalid("gracePeriodSeconds", grace, why)
