"""Endorsements are fetched ahead of their end and never while a workload waits; vendors may be away, slow or mad."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.endorsements.requests import AmdCrlRequest, EndorsementRequest
from attest.errors import AttestError, EndorsementError
from attest.evidence.snp.tcb import SnpProduct
from attest.fetch import EndorsementCache, FetchClocks, KdsClient, VendorServices
from attest_simulator import SimulatedKds
from kms.config.external_files import read_cached
from kms.release.endorsement_dates import dated
from kms.release.endorsement_provider import EndorsementProvider, FetchService
from kms.release.endorsement_refresh import (
    FIRST_RETRY_SECONDS,
    LEAD,
    LONGEST_RETRY_SECONDS,
    OUTCOMES,
    UNCHANGED_SECONDS,
    Refresher,
    retry_seconds,
)
from kms.release.service import ReleaseService
from kms.release.vendor_cache import FORGOTTEN_AFTER, NotedCache, SharedSource
from tests.kms.support import AT, FakeClock, Harness, Workload, settings_for
from tests.kms.test_cli import Shell, shell

__all__ = ["shell"]

LIST_DAYS = 3


@dataclass
class Vendor:
    """A vendor's service in memory: it may be away, answer nonsense, or not answer at all."""

    service: str
    clock: FakeClock
    failing: Callable[[], bytes] | None = None
    issued: datetime = AT
    asked: list[EndorsementRequest] = field(default_factory=list)

    def url_of(self, request: EndorsementRequest) -> str:
        return KdsClient(timing=FetchClocks(now=self.clock)).url_of(request)

    def get(self, request: EndorsementRequest, *, progress: Callable[[str], None]) -> bytes:
        self.asked.append(request)
        if self.failing is not None:
            return self.failing()
        kds = SimulatedKds(this_update=self.issued, next_update=self.issued + timedelta(days=LIST_DAYS))
        path, _, query = self.url_of(request).removeprefix("https://kdsintf.amd.com").partition("?")
        answer = kds.answer(path, query)
        assert answer.status == 200, path
        return answer.body


def away() -> bytes:
    raise EndorsementError("out of reach", code="kds-unreachable", retryable=True)


def unknown() -> bytes:
    raise EndorsementError("no such thing", code="kds-not-found")


@dataclass
class Scene:
    """A service without files, whose lists come from a vendor."""

    harness: Harness
    amd: Vendor
    cache: NotedCache
    refresher: Refresher
    releases: ReleaseService
    told: list[tuple[str, str]]
    lines: list[str]

    def release(self) -> None:
        challenge = self.releases.challenge()
        self.releases.release(Workload().request(challenge, "model"))

    def look(self) -> int:
        """Look once; return how many questions the vendor was asked."""
        before = len(self.amd.asked)
        self.refresher.look()
        return len(self.amd.asked) - before


@pytest.fixture(params=["memory", "disk"])
def scene(request: pytest.FixtureRequest, harness: Harness, tmp_path: Path) -> Scene:
    harness.add_key("model")
    clock = harness.clock
    amd, *others = (Vendor(service=name, clock=clock) for name in ("amd", "intel", "rims", "ocsp"))
    vendors = VendorServices(
        amd=SharedSource(amd), intel=SharedSource(others[0]), rims=SharedSource(others[1]), ocsp=SharedSource(others[2])
    )
    cache = NotedCache(tmp_path / "cache" if request.param == "disk" else None, clock=clock)
    told: list[tuple[str, str]] = []
    lines: list[str] = []
    provider = EndorsementProvider((), service=FetchService(vendors=vendors, cache=cache))
    provider.reload(at=AT)
    services = replace(harness.services, endorsements=provider)
    refresher = Refresher(
        vendors,
        cache,
        clock=clock,
        jitter=lambda: 1.0,
        counted=lambda *one: told.append(one),
        report=lines.append,
    )
    return Scene(
        harness=harness,
        amd=amd,
        cache=cache,
        refresher=refresher,
        releases=ReleaseService(services),
        told=told,
        lines=lines,
    )


def test_with_a_warm_cache_no_vendor_is_asked_while_a_workload_waits(scene: Scene) -> None:
    scene.release()
    asked = len(scene.amd.asked)
    assert asked > 0
    scene.amd.failing = away
    for _ in range(3):
        scene.release()
    assert len(scene.amd.asked) == asked


def test_what_ends_soon_is_fetched_ahead_and_its_end_is_never_noticed(scene: Scene) -> None:
    scene.release()
    end = AT + timedelta(days=LIST_DAYS)
    scene.harness.clock.at = end - LEAD - timedelta(seconds=1)
    assert scene.look() == 0
    scene.amd.issued = scene.harness.clock.at = end - LEAD
    assert scene.look() == 1, "the list alone: certificates are kept"
    assert scene.told == [("amd", "fetched")]
    assert scene.look() == 0
    scene.amd.failing = away
    scene.harness.clock.at = end + timedelta(hours=1)
    scene.release()


def test_with_the_vendor_away_what_is_at_hand_counts_until_its_own_end(scene: Scene) -> None:
    scene.release()
    end = AT + timedelta(days=LIST_DAYS)
    scene.amd.failing = away
    scene.harness.clock.at = end - timedelta(seconds=1)
    assert scene.look() == 1
    assert scene.told == [("amd", "failed")]
    assert "the cached version is used until it expires" in scene.lines[0]
    scene.release()
    scene.harness.clock.at = end
    with pytest.raises(EndorsementError):
        scene.release()
    scene.amd.failing, scene.amd.issued = None, end
    scene.harness.clock.forward(seconds=FIRST_RETRY_SECONDS)
    assert scene.look() == 1
    scene.release()


def test_a_vendor_who_is_away_is_asked_ever_more_seldom(scene: Scene) -> None:
    scene.release()
    scene.harness.clock.at = AT + timedelta(days=LIST_DAYS) - LEAD
    scene.amd.failing = away
    began, times = scene.harness.clock.at, []
    for _ in range(3 * 3600):
        if scene.look():
            times.append((scene.harness.clock.at - began).total_seconds())
        scene.harness.clock.forward(seconds=1)
    pauses = [after - before for before, after in pairwise(times)]
    assert pauses == [30, 60, 120, 240, 480, 960, 1920, 3600]


@pytest.mark.parametrize("answer", [lambda: b"garbage", lambda: b"", unknown])
def test_nonsense_takes_the_place_of_nothing_and_other_questions_go_on(
    scene: Scene, answer: Callable[[], bytes]
) -> None:
    scene.release()
    scene.harness.clock.at = AT + timedelta(days=LIST_DAYS) - LEAD
    scene.amd.failing = answer
    assert scene.look() == 1
    assert scene.told == [("amd", "failed")]
    assert scene.look() == 0
    scene.release()
    scene.harness.clock.forward(seconds=UNCHANGED_SECONDS)
    scene.amd.failing, scene.amd.issued = None, scene.harness.clock.at
    assert scene.look() == 1
    assert scene.told[-1] == ("amd", "fetched")


def test_a_vendor_with_nothing_newer_is_not_asked_every_minute(scene: Scene) -> None:
    scene.release()
    scene.harness.clock.at = AT + timedelta(days=LIST_DAYS) - LEAD
    assert scene.look() == 1
    assert scene.told == [("amd", "unchanged")]
    scene.harness.clock.forward(seconds=UNCHANGED_SECONDS - 1)
    assert scene.look() == 0
    scene.harness.clock.forward(seconds=1)
    assert scene.look() == 1
    scene.harness.clock.forward(seconds=2 * UNCHANGED_SECONDS - 1)
    assert scene.look() == 0
    assert {outcome for _, outcome in scene.told} <= set(OUTCOMES)


def test_a_slow_vendor_does_not_hold_up_a_workload_whose_needs_are_at_hand(scene: Scene) -> None:
    scene.release()
    going, reached = threading.Event(), threading.Event()

    def slow() -> bytes:
        reached.set()
        assert going.wait(30)
        return away()

    scene.harness.clock.at = AT + timedelta(days=LIST_DAYS) - LEAD
    scene.amd.failing = slow
    with ThreadPoolExecutor(1) as threads:
        looking = threads.submit(scene.refresher.look)
        assert reached.wait(30)
        scene.release()
        assert not looking.done()
        going.set()


def test_what_nobody_needed_for_a_week_is_not_kept_fresh(scene: Scene) -> None:
    scene.release()
    assert scene.cache.wanted()
    scene.harness.clock.at = AT + FORGOTTEN_AFTER
    assert scene.cache.wanted()
    scene.harness.clock.forward(seconds=1)
    assert scene.cache.wanted() == ()
    assert scene.look() == 0


def test_the_ends_of_what_was_fetched_are_known(scene: Scene) -> None:
    scene.release()
    ends = {one.kind: one.ends for one in dated(scene.cache.endorsements())}
    assert ends == {"crl": AT + timedelta(days=LIST_DAYS)}


def test_a_question_that_several_have_at_once_is_asked_once(harness: Harness) -> None:
    vendor = Vendor(service="amd", clock=harness.clock)
    going = threading.Event()

    def slow() -> bytes:
        assert going.wait(30)
        return b"the answer"

    vendor.failing = slow
    source = SharedSource(vendor)
    request = AmdCrlRequest(product=SnpProduct.GENOA, kind="vcek")
    with ThreadPoolExecutor(4) as threads:
        answers = [threads.submit(source.get, request, progress=lambda _: None)]
        while not vendor.asked:
            threading.Event().wait(0.01)
        answers += [threads.submit(source.get, request, progress=lambda _: None) for _ in range(3)]
        threading.Event().wait(0.2)
        going.set()
        assert {answer.result() for answer in answers} == {b"the answer"}
    assert len(vendor.asked) == 1
    vendor.failing = away
    with pytest.raises(AttestError):
        source.get(request, progress=lambda _: None)
    vendor.failing = slow
    assert source.get(request, progress=lambda _: None) == b"the answer", "a failure is not remembered"


@given(st.integers(min_value=1, max_value=10_000), st.floats(min_value=0, max_value=1))
def test_pauses_are_bounded_and_spread(failures: int, jitter: float) -> None:
    pause = retry_seconds(failures, jitter=jitter)
    assert FIRST_RETRY_SECONDS / 2 <= pause <= LONGEST_RETRY_SECONDS
    assert retry_seconds(failures, jitter=0) <= pause <= retry_seconds(failures, jitter=1)


def test_the_thread_looks_by_itself_and_stops(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kms.release.endorsement_refresh.LOOK_SECONDS", 0.01)
    scene.release()
    scene.amd.issued = scene.harness.clock.at = AT + timedelta(days=LIST_DAYS) - LEAD
    scene.refresher.start()
    for _ in range(1000):
        if scene.told:
            break
        threading.Event().wait(0.01)
    scene.refresher.stop()
    assert scene.told[0] == ("amd", "fetched")


def test_endorsements_status_lists_files_and_cache_with_their_ends(shell: Shell, harness: Harness) -> None:
    shell.init("--allow-simulated")
    cache = shell.folder / "cache"
    vendor = Vendor(service="amd", clock=harness.clock)
    from attest.fetch import gather_endorsements

    gather_endorsements(
        [AmdCrlRequest(product=SnpProduct.GENOA, kind="vcek")], source=vendor, at=AT, cache=EndorsementCache(cache)
    )
    files = harness.folder / "endorsements"
    arguments = ("--endorsements", str(files), "--cache-directory", str(cache))
    out, _ = shell.with_config("endorsements", "status", *arguments)
    assert {line.split()[2] for line in out.splitlines()} == {"files", "cache"}
    out, _ = shell.with_config("endorsements", "status", *arguments, "--json")
    rows = json.loads(out)["endorsements"]
    assert [row["ends"] for row in rows] == sorted(row["ends"] for row in rows)
    cached = next(row for row in rows if row["from"] == "cache")
    assert (cached["kind"], cached["ends"]) == ("crl", "2026-06-04T12:00:00Z")
    # A damaged record counts as absent.
    path = next(cache.glob("*/*.cbor"))
    path.write_bytes(path.read_bytes()[:-1])
    assert dated(read_cached(settings_for(harness.folder, cache_directory=cache), at=AT)) == ()
