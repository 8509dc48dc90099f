"""Pauses before a retry."""

from __future__ import annotations

from kubekit.client.retry import Backoff


def test_pauses_double_up_to_a_limit_and_vary() -> None:
    least = Backoff(1.0, 5.0, random=lambda: 1.0)
    most = Backoff(1.0, 5.0, random=lambda: 0.0)
    assert [least.delay(failures) for failures in (1, 2, 3, 4)] == [0.5, 1.0, 2.0, 2.5]
    assert [most.delay(failures) for failures in (1, 2, 3, 4)] == [1.0, 2.0, 4.0, 5.0]
    assert most.delay(1_000_000) == 5.0
    assert len({Backoff().delay(1) for _ in range(50)}) > 1
