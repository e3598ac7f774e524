"""Prometheus metrics: what is counted, with which labels, by one process and by several."""

import http.client
import os
import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import get_args

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from attest.errors import AttestError, EndorsementError, EvidenceError
from attest.release import Challenge, WorkloadKey
from kms.api.app import create_app
from kms.api.observation import Watching
from kms.config.insecure_switches import SWITCHES
from kms.controls.admin import freeze
from kms.domain.errors import ChallengeUsedError, IntegrityError, ReleaseDeniedError, UnavailableError
from kms.domain.freezes import Scope, target
from kms.release.endorsement_dates import dated
from kms.running.fsck_verdict import FsckVerdict
from kms.running.metrics import Meter, MetricsApp, SlowGauge
from kms.telemetry import TEES, Outcome, counted, observe, tee_of
from tests.kms.process import ServedProcess
from tests.kms.support import ACTOR, AT, Harness, TdWorkload, Workload, documented_metrics
from tests.kms.test_workers import config

__all__ = ["config"]

Samples = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]


def samples_of(text: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def meter(harness: Harness) -> Meter:
    examined = FsckVerdict(ended_at=AT.timestamp(), findings=0, seconds=1.0)
    return Meter(harness.settings, harness.services, fsck=lambda: examined)


@pytest.fixture
def client(harness: Harness, meter: Meter) -> Iterator[TestClient]:
    watching = Watching(observers=(meter,), answered=meter.answered, limited=meter.limited)
    with TestClient(create_app(harness.settings, harness.services, watching=watching)) as made:
        yield made


def released(client: TestClient, workload: Workload | None = None, key: str = "model") -> int:
    challenge = Challenge.from_json(client.post("/v1/challenges", json={}).json())
    request = (workload or Workload()).request(challenge, key).to_json()
    return client.post("/v1/releases", json=request).status_code


def test_requests_decisions_and_stages_are_counted(harness: Harness, client: TestClient, meter: Meter) -> None:
    harness.add_key("model")
    assert released(client) == HTTPStatus.OK
    assert released(client, Workload().with_measurement(b"\x01" * 48)) == HTTPStatus.FORBIDDEN
    assert client.get("/v1/log/tile/0/x123/456.p/7").status_code == HTTPStatus.NOT_FOUND
    assert client.get("/of/no/route").status_code == HTTPStatus.NOT_FOUND
    found = samples_of(meter.text().decode())

    def value(name: str, **labels: str) -> float:
        return found[name, tuple(sorted(labels.items()))]

    assert value("kms_requests_total", route="/v1/challenges", status="200") == 2
    assert value("kms_requests_total", route="/v1/releases", status="200") == 1
    assert value("kms_requests_total", route="/v1/releases", status="403") == 1
    assert value("kms_requests_total", route="/v1/log/tile/{path:path}", status="404") == 1
    assert value("kms_requests_total", route="none", status="404") == 1
    assert value("kms_decisions_total", outcome="allow", code="released") == 1
    assert value("kms_decisions_total", outcome="deny", code="policy-not-met") == 1
    assert value("kms_verification_seconds_count", tee="snp") == 2
    for stage, count in {"challenge": 2, "decide": 2, "unwrap": 2, "wrap": 2, "log": 2, "prove": 1}.items():
        assert value("kms_stage_seconds_count", stage=stage) == count, stage
    assert value("kms_store_transaction_seconds_count", kind="write") == 2
    assert value("kms_store_transaction_seconds_count", kind="read") > 2
    assert value("kms_log_entries") == 4
    assert value("kms_nonces_used") == 2
    assert value("kms_log_newest_entry_timestamp_seconds") == AT.timestamp()
    assert value("kms_scrape_ok") == 1


def test_mc_33_labels_are_from_closed_sets_and_name_no_key_tenant_or_chip(
    harness: Harness, client: TestClient, meter: Meter
) -> None:
    harness.add_key("a-telling-name")
    released(client, key="a-telling-name")
    released(client, key="another-name")
    text = meter.text().decode()
    for word in ("telling", "another", "default", Workload().guest.chip.chip_id.hex()[:16]):
        assert word not in text
    allowed = {
        "route",
        "status",
        "outcome",
        "code",
        "tee",
        "stage",
        "kind",
        "limit",
        "scope",
        "service",
        "switch",
        "le",
        "version",
    }
    assert {label for _, labels in samples_of(text) for label, _ in labels} <= allowed


def test_every_metric_that_is_served_is_documented(harness: Harness, client: TestClient, meter: Meter) -> None:
    harness.add_key("model")
    released(client)
    meter.limited("rate")
    meter.refreshed("amd", "ok")
    found = {name for name, _ in samples_of(meter.text().decode())}
    plain = {re.sub(r"_(bucket|sum|count)$", "", name) for name in found if not name.endswith("_created")}
    assert plain == documented_metrics()


def test_a_code_that_is_none_and_codes_without_end_are_counted_as_other(meter: Meter) -> None:
    for code in ("No Code", "x" * 3, *(f"made-up-{number}" for number in range(600))):
        meter.decided("deny", code)
    codes = {
        dict(labels)["code"] for name, labels in samples_of(meter.text().decode()) if name == "kms_decisions_total"
    }
    assert len(codes) == 513
    assert "other" in codes
    assert "No Code" not in codes


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ReleaseDeniedError("no", code="policy-not-met"), "deny"),
        (EvidenceError("no", code="snp-length"), "deny"),
        (ChallengeUsedError("no", code="challenge-used"), "refused"),
        (UnavailableError("no", code="store-busy"), "undecided"),
        (EndorsementError("no", code="crl-missing"), "undecided"),
        (IntegrityError("no", code="wrapped-key-invalid"), "failed"),
    ],
)
def test_a_refusal_is_told_from_what_nobody_decided(meter: Meter, error: AttestError, outcome: str) -> None:
    observe((meter,))

    def work() -> None:
        raise error

    with pytest.raises(type(error)):
        counted(work)
    observe(())
    key = ("kms_decisions_total", (("code", error.code), ("outcome", outcome)))
    assert samples_of(meter.text().decode())[key] == 1
    assert outcome in get_args(Outcome)


def test_evidence_is_told_by_its_kind_alone(harness: Harness) -> None:
    challenge = harness.releases.challenge()
    found = [tee_of(one.request(challenge, "model").evidence) for one in (Workload(), TdWorkload())]
    assert found == ["snp", "intel"]
    assert set(found) <= set(TEES)


def test_mc_42_relaxed_switches_are_metrics(harness: Harness) -> None:
    def relaxed(**changes: object) -> dict[str, float]:
        settings = harness.settings.model_copy(update=changes)
        found = samples_of(Meter(settings, harness.services).text().decode())
        return {dict(labels)["switch"]: value for (name, labels), value in found.items() if name == "kms_relaxed"}

    assert relaxed() == {name: float(name in {"allow_simulated", "unsigned_bundles"}) for name in SWITCHES}
    assert set(relaxed(allow_simulated=False, endorsements=()).values()) == {0}


def test_the_soonest_end_of_each_kind_of_endorsement_is_shown(harness: Harness, meter: Meter) -> None:
    found = samples_of(meter.text().decode())
    ends = dated(harness.services.endorsements.current(at=AT))[0].ends
    assert found["kms_endorsement_expiry_timestamp_seconds", (("kind", "crl"),)] == ends.timestamp()


def test_a_database_that_does_not_answer_leaves_the_other_metrics(harness: Harness) -> None:
    class Gone:
        def reading(self) -> None:
            raise UnavailableError("away", code="store-unreachable")

    gone = replace(harness.services, store=Gone())  # type: ignore[arg-type]
    found = samples_of(Meter(harness.settings, gone).text().decode())
    assert found["kms_scrape_ok", ()] == 0
    assert ("kms_log_entries", ()) not in found
    assert ("kms_relaxed", (("switch", "allow_simulated"),)) in found


def test_the_listener_of_metrics_answers_nothing_else(meter: Meter) -> None:
    client = TestClient(MetricsApp(meter.text))
    answer = client.get("/metrics")
    assert answer.status_code == HTTPStatus.OK
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert client.get("/v1/identity").status_code == HTTPStatus.NOT_FOUND
    assert client.post("/metrics").status_code == HTTPStatus.METHOD_NOT_ALLOWED


def scraped(port: int) -> Samples:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return samples_of(text)


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


@pytest.mark.loopback
def test_workers_count_together_and_a_worker_goes_on_with_the_count_of_the_one_before_it(config: Path) -> None:
    port = free_port()
    service = ServedProcess.start(
        config, "--workers", "2", "--metrics-port", str(port), "--log-format", "json", cold=True
    )
    key = ("kms_requests_total", (("route", "/v1/challenges"), ("status", "200")))
    try:
        workers = service.wait_for_workers(2)
        for _ in range(20):
            service.challenge()
        assert {scraped(port)[key] for _ in range(3)} == {20}, "whichever worker answers"
        os.kill(workers[0], signal.SIGKILL)
        service.wait_for_workers(2, other_than=workers[:1])
        service.challenge()
        assert scraped(port)[key] == 21
    finally:
        assert service.terminate() == 0


@pytest.mark.loopback
def test_without_a_port_there_are_no_metrics_and_one_that_is_taken_is_refused(config: Path) -> None:
    service = ServedProcess.start(config)
    try:
        with pytest.raises(AssertionError, match=r"choose another with --metrics-port"):
            ServedProcess.start(config, "--metrics-port", str(service.port))
    finally:
        assert service.terminate() == 0


def test_an_end_that_has_come_is_shown_as_such(harness: Harness, meter: Meter) -> None:
    harness.clock.forward(days=3650)
    found = samples_of(meter.text().decode())
    ends = found["kms_endorsement_expiry_timestamp_seconds", (("kind", "crl"),)]
    assert ends < (AT + timedelta(days=3650)).timestamp()


def test_freezes_are_shown_by_what_they_stop_and_nothing_frozen_is_shown_too(harness: Harness, meter: Meter) -> None:
    harness.add_key("model")

    def frozen() -> dict[str, float]:
        found = samples_of(meter.text().decode())
        return {dict(labels)["scope"]: value for (name, labels), value in found.items() if name == "kms_freezes"}

    assert frozen() == dict.fromkeys(map(str, Scope), 0.0)
    for one in (target("key", "model"), target("product", "milan"), target("product", "genoa")):
        freeze(harness.services.store, one, reason="x", actor=ACTOR, at=harness.clock())
    assert frozen() == {"all": 0.0, "tenant": 0.0, "key": 1.0, "product": 2.0}


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_live_leases_are_shown_without_those_that_ended(harness: Harness, kind: str) -> None:
    harness.add_key("model")
    for workload in (Workload(), Workload(), Workload(key=WorkloadKey.generate())):
        harness.releases.release(workload.request(harness.releases.challenge(), "model"))

    def live() -> float:
        return samples_of(Meter(harness.settings, harness.services).text().decode())["kms_leases_live", ()]

    assert live() == 2  # the second took the place of the first
    harness.clock.forward(seconds=harness.settings.lease_seconds)
    assert live() == 0


def test_what_takes_long_to_count_is_counted_seldom() -> None:
    now, counted_at = [0.0], []

    def count() -> int:
        counted_at.append(now[0])
        now[0] += 2.0  # so long it takes
        return len(counted_at)

    seldom = SlowGauge(count, monotonic=lambda: now[0])
    assert [seldom(), seldom()] == [1, 1]
    now[0] = 201.9
    assert seldom() == 1
    now[0] = 202.0
    assert seldom() == 2
    quick = SlowGauge(lambda: int(now[0]), monotonic=lambda: now[0])
    first = quick()
    now[0] += 59.9
    assert quick() == first
    now[0] += 0.1
    assert quick() == first + 60


def test_what_could_not_be_counted_is_counted_again() -> None:
    failing = [True]

    def count() -> int:
        if failing[0]:
            raise UnavailableError("away", code="store-unreachable")
        return 7

    seldom = SlowGauge(count)
    with pytest.raises(UnavailableError):
        seldom()
    failing[0] = False
    assert seldom() == 7


def test_a_guard_that_is_behind_shows(harness: Harness) -> None:
    found = samples_of(Meter(harness.settings, harness.services, guard=lambda: 42.5).text().decode())
    assert found["kms_rollback_guard_behind_seconds", ()] == 42.5
