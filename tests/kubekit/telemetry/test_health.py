"""Health: named checks and the verdict over them."""

from __future__ import annotations

from kubekit.telemetry.health import Health


def test_a_process_without_checks_is_healthy() -> None:
    assert Health().liveness().healthy
    assert str(Health().readiness()) == "ok\n"


def test_one_failed_check_fails_the_report_and_is_named() -> None:
    health = Health()
    health.live("store", lambda: "disk full")
    health.live("loop", lambda: "")

    verdict = health.liveness()

    assert not verdict.healthy
    assert str(verdict) == "[+] loop: ok\n[-] store: disk full\n"


def test_a_process_that_is_not_ready_is_still_alive() -> None:
    health = Health()
    health.ready("informers", lambda: "1 of 2 informers not synced")

    assert health.liveness().healthy
    assert not health.readiness().healthy


def test_a_process_that_is_not_alive_is_not_ready() -> None:
    health = Health()
    health.live("loop", lambda: "stuck")

    assert not health.readiness().healthy


def test_a_note_is_shown_and_does_not_affect_readiness() -> None:
    health = Health()
    health.ready("informers", lambda: "")
    health.note("rights", lambda: "may not list secrets")
    health.note("more", lambda: "")

    assert health.readiness().healthy
    assert str(health.readiness()) == "[+] informers: ok\n[~] rights: may not list secrets\n"
    assert str(health.liveness()) == "ok\n"


def test_checks_run_again_each_time() -> None:
    health = Health()
    trouble = ["starting", ""]
    health.ready("x", lambda: trouble.pop(0))

    assert [health.readiness().healthy, health.readiness().healthy] == [False, True]
