"""The informer's store: changes always add up."""

from __future__ import annotations

import msgspec
from hypothesis import given, strategies as st

from kubekit.client.watch_stream import WatchEvent
from kubekit.objects.core import Pod
from kubekit.objects.meta import Key, ObjectMeta
from kubekit.watch.informer_cache import Change, InformerCache, identity_of

NAMES = st.sampled_from("abcd")
UIDS = st.sampled_from(["u1", "u2"])


def pod(name: str, uid: str, version: int) -> Pod:
    labels = {"group": f"g{version % 3}"}
    return Pod(ObjectMeta(name=name, uid=uid, resource_version=str(version), labels=labels))


states = st.dictionaries(NAMES, st.tuples(UIDS, st.integers(1, 9)))
events = st.tuples(
    st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "UNREADABLE"]), NAMES, UIDS
)


def replayed(changes: list[Change[Pod]]) -> dict[str, Pod]:
    """The state that a listener would build, checking each change against it."""
    state: dict[str, Pod] = {}
    for change in changes:
        name = change.current.metadata.name
        assert state.get(name) is change.old
        assert change.old is not None or change.new is not None
        if change.new is None:
            del state[name]
            continue
        if change.old is not None:
            assert change.old.metadata.uid == change.new.metadata.uid
            assert change.old != change.new
        state[name] = change.new
    return state


@given(st.lists(st.one_of(states, events)))
def test_changes_add_up_to_the_state(steps: list[object]) -> None:
    store: InformerCache[Pod] = InformerCache({"group": lambda p: [p.metadata.labels["group"]]})
    changes: list[Change[Pod]] = []
    for version, step in enumerate(steps, 10):
        if isinstance(step, dict):
            changes += store.replace(pod(n, uid, v) for n, (uid, v) in step.items())
            assert {p.metadata.name for p in store.all()} == set(step)
        elif isinstance(step, tuple):
            kind, name, uid = step
            changes += store.apply(WatchEvent(kind, pod(name, uid, version)))
    cached = {p.metadata.name: p for p in store.all()}
    assert replayed(changes) == cached
    for group in ("g0", "g1", "g2"):
        expected = {n for n, p in cached.items() if p.metadata.labels["group"] == group}
        assert {p.metadata.name for p in store.by("group", group)} == expected


def test_a_replayed_event_is_no_change() -> None:
    store: InformerCache[Pod] = InformerCache({})
    item = pod("a", "u1", 1)
    assert len(store.apply(WatchEvent("ADDED", item))) == 1
    assert store.apply(WatchEvent("MODIFIED", msgspec.structs.replace(item))) == []
    assert store.replace([item]) == []


def test_the_deletion_of_an_older_uid_leaves_the_newer_object() -> None:
    store: InformerCache[Pod] = InformerCache({})
    store.apply(WatchEvent("ADDED", pod("a", "u2", 2)))
    assert store.apply(WatchEvent("DELETED", pod("a", "u1", 1))) == []
    assert store.get(Key("", "a")) is not None


def test_a_raw_object_has_the_same_identity_as_its_struct() -> None:
    raw = {"metadata": {"name": "x", "namespace": "ns", "uid": "u", "resourceVersion": "5"}}
    assert identity_of(raw) == identity_of(msgspec.convert(raw, Pod))
    assert identity_of({}).version == ""


def test_an_index_that_fails_for_one_object_leaves_the_others_indexed() -> None:
    cache: InformerCache[Pod] = InformerCache({"number": lambda p: [str(int(p.metadata.name))]})
    good, bad = pod("1", "u1", 1), pod("²", "u2", 1)

    assert [change.new for change in cache.replace([bad, good])] == [bad, good]
    assert cache.by("number", "1") == [good]
    assert cache.get(bad.metadata.key) is bad

    assert [change.old for change in cache.replace([])] == [bad, good]
    assert cache.by("number", "1") == []
