"""Topics that changed reach the streams that want them, also if a page subscribes late."""

from __future__ import annotations

import asyncio

from muster.web.cluster import subscriptions as module
from muster.web.cluster.subscriptions import Changes


async def test_many_changes_of_wanted_topics_are_one_batch() -> None:
    changes = Changes()
    with changes.subscribed() as subscription:
        changes.want(subscription, {"jobs": changes.version, "line": changes.version})
        for topics in (("jobs", "job:a/b"), ("jobs",), ("nodes",), ("line",)):
            changes.publish(topics)

        assert await subscription.take() == ["jobs", "line"]


async def test_a_change_between_the_page_and_its_subscription_is_reported() -> None:
    changes = Changes()
    version = changes.version
    changes.publish(("jobs",))
    with changes.subscribed() as subscription:
        changes.want(subscription, {"jobs": version, "line": version})

        assert await subscription.take() == ["jobs"]


async def test_a_page_of_an_earlier_server_is_outdated() -> None:
    changes = Changes()
    with changes.subscribed() as subscription:
        epoch = changes.version.partition(".")[0]
        wrong = {"a": f"{epoch}.²", "b": f"{epoch}.{'1' * 5000}", "c": f"{epoch}."}
        earlier = {"jobs": Changes().version, "line": "", "nodes": "x.y"}
        changes.want(subscription, earlier | wrong)

        assert await subscription.take() == ["a", "b", "c", "jobs", "line", "nodes"]


async def test_a_page_that_is_up_to_date_waits() -> None:
    changes = Changes()
    changes.publish(("jobs",))
    with changes.subscribed() as subscription:
        changes.want(subscription, {"jobs": changes.version})
        reader = asyncio.create_task(subscription.take())
        await asyncio.sleep(0)
        assert not reader.done()

        changes.publish(("jobs",))
        assert await reader == ["jobs"]


async def test_forgotten_topics_count_as_changed() -> None:
    changes = Changes()
    version = changes.version
    for number in range(module.MAX_TOPICS + 2):
        changes.publish((f"job:a/{number}",))
    with changes.subscribed() as subscription:
        changes.want(subscription, {"job:a/7": version})

        assert await subscription.take() == ["job:a/7"]


async def test_closing_ends_all_streams() -> None:
    changes = Changes()
    with changes.subscribed() as subscription:
        changes.close()

        assert await subscription.take() == []
    assert not changes._subscriptions
