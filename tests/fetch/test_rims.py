"""The client of NVIDIA's RIM service: an id is asked for, and an answer is only what was asked for."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from attest.endorsements.requests import IntelRootCrlRequest, NvidiaRimRequest
from attest.endorsements.rims import MAX_RIM_ANSWER_BYTES
from attest.errors import ConfigurationError, EndorsementError
from attest.fetch import RIM_URL, EndorsementCache, FetchClocks, RimServiceClient, gather_endorsements, read_service_key
from attest.fetch.answers import EXPIRING_RIM_DAYS, RENEWAL_DAYS, RIM_DAYS, describe, read_answer
from attest.fetch.client import MAX_ATTEMPTS, TRANSFER_SECONDS
from attest_simulator.nvidia import SimulatedGpu, SimulatedNvidiaService, SimulatedNvSwitch
from attest_simulator.nvidia.rims import RimTemplate, rim_answer
from tests.fetch.conftest import AT, Reply, Server, Watch, simulated_rims

GPU = SimulatedGpu.of("gpu 0")
DRIVER, VBIOS = GPU.rims(at=AT)
(BIOS,) = SimulatedNvSwitch.of().rims(at=AT)
REQUEST = NvidiaRimRequest(id=DRIVER.id)
SECOND = timedelta(seconds=1)


def quiet(_: str) -> None:
    """Say nothing."""


def client_of(**arguments: object) -> RimServiceClient:
    return RimServiceClient(timing=FetchClocks(now=lambda: AT), **arguments)  # type: ignore[arg-type]  # the test's keywords


def refused(client: RimServiceClient, request: NvidiaRimRequest = REQUEST) -> EndorsementError:
    with pytest.raises(EndorsementError) as raised:
        client.get(request, progress=quiet)
    assert raised.value.exit_code == 5
    return raised.value


@pytest.fixture
def cache(tmp_path: Path) -> EndorsementCache:
    return EndorsementCache(tmp_path)


# -- addresses


def test_a_rim_is_asked_for_by_its_id() -> None:
    assert client_of().url_of(REQUEST) == f"{RIM_URL}/v1/rim/{DRIVER.id}"
    assert (
        client_of(base_url="https://mirror.example/nvidia/")
        .url_of(REQUEST)
        .startswith("https://mirror.example/nvidia/v1/rim/NV_GPU_DRIVER_")
    )
    assert client_of().service == RIM_URL


@pytest.mark.parametrize("name", ["", "NV_", "ids", "NV_../ids", "NV_a/b", "NV_a?b", "NV_a%2e", "NV_" + "x" * 200])
def test_what_can_be_no_id_goes_nowhere(name: str) -> None:
    error = refused(client_of(), NvidiaRimRequest(id=name))
    assert (error.code, error.retryable) == ("rim-not-found", False)


def test_another_vendors_request_is_a_programmers_error() -> None:
    with pytest.raises(TypeError, match="IntelRootCrlRequest"):
        client_of().url_of(IntelRootCrlRequest())


@pytest.mark.parametrize("url", ["", "http://rim.example", "https://user@rim.example", "https://x?y"])
def test_an_address_that_leads_elsewhere_or_is_unprotected_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        client_of(base_url=url)
    assert raised.value.code == "rim-url-invalid"


# -- answers


@pytest.mark.loopback
@pytest.mark.parametrize("rim", [DRIVER, VBIOS, BIOS], ids=lambda rim: rim.id)
def test_an_answer_is_the_rim_that_was_asked_for(server: Server, rims: RimServiceClient, rim: RimTemplate) -> None:
    told: list[str] = []
    request = NvidiaRimRequest(id=rim.id)
    data = rims.get(request, progress=told.append)
    answer = read_answer(request, data, source=rims.url_of(request), received=AT)
    assert answer.rims == (rim.document(),)
    assert (answer.entry().kind, answer.received) == ("nvidia-rim", AT)
    assert answer.is_current(AT)
    assert told == [f"fetching the {describe(request)} from {server.url}"]
    assert server.requests == [f"/v1/rim/{rim.id}"]
    assert "Authorization" not in server.headers[0]


@pytest.mark.loopback
@pytest.mark.parametrize(
    ("reply", "code", "asked"),
    [
        (Reply(status=404, body=b'{"code":"RIM_NOT_FOUND"}'), "rim-not-found", 1),
        (Reply(status=401), "rim-answer-invalid", 1),
        (Reply(status=302, headers=(("Location", "https://elsewhere.example/"),)), "rim-answer-invalid", 1),
        (Reply(body=b" " * (MAX_RIM_ANSWER_BYTES + 1)), "rim-answer-invalid", 1),
        (Reply(body=b"{", headers=(("Content-Encoding", "gzip"),)), "rim-answer-invalid", 1),
        (Reply(status=429), "rim-throttled", MAX_ATTEMPTS),
        (Reply(status=429, headers=(("Retry-After", "3600"),)), "rim-throttled", 1),
        (Reply(status=503), "rim-throttled", MAX_ATTEMPTS),
        (Reply(status=502), "rim-unreachable", MAX_ATTEMPTS),
        (Reply(body=b"{", declared=99), "rim-unreachable", MAX_ATTEMPTS),
    ],
    ids=["404", "401", "redirect", "huge", "coded", "429", "429 for long", "503", "502", "cut off"],
)
def test_a_service_that_does_not_answer_is_refused_by_name(
    server: Server, rims: RimServiceClient, reply: Reply, code: str, asked: int
) -> None:
    server.queue = [reply] * MAX_ATTEMPTS
    assert refused(rims).code == code
    assert len(server.requests) == asked


@pytest.mark.loopback
def test_a_service_that_is_slow_or_gone_is_unreachable(server: Server, rims: RimServiceClient, watch: Watch) -> None:
    watch.ticks = [0.0, TRANSFER_SECONDS + 1] * MAX_ATTEMPTS
    assert (refused(rims).code, refused(client_of(base_url="http://127.0.0.1:1", trust_env=False)).code) == (
        "rim-unreachable",
        "rim-unreachable",
    )


WHOLE = rim_answer(DRIVER)
OTHER = rim_answer(VBIOS)


def changed(**members: object) -> bytes:
    return json.dumps({**json.loads(WHOLE), **members}).encode()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not one strict JSON"),
        (b"<html>welcome</html>", "not one strict JSON"),
        (WHOLE[:-1], "not one strict JSON"),
        (OTHER, VBIOS.id),
        (changed(id=DRIVER.id + "1"), DRIVER.id + "1"),
        (changed(sha256="00" * 32), "sha256"),
        (changed(rim=json.loads(OTHER)["rim"], sha256=json.loads(OTHER)["sha256"]), f"version {VBIOS.version}"),
        (changed(rim="PFNvZnR3YXJlSWRlbnRpdHkvPg==", sha256="b2" * 32), "sha256"),
        (WHOLE + b" " * MAX_RIM_ANSWER_BYTES, "more than"),
    ],
    ids=["empty", "page", "cut off", "another", "another id", "digest", "another version", "not signed", "huge"],
)
def test_what_is_not_what_was_asked_for_is_none(data: bytes, words: str) -> None:
    with pytest.raises(EndorsementError, match=words) as raised:
        read_answer(REQUEST, data, source="https://rim.example/")
    assert raised.value.code == "rim-answer-invalid"


@pytest.mark.parametrize("rim", [VBIOS, BIOS], ids=["VBIOS", "BIOS"])
def test_a_vbios_of_another_version_is_none(rim: RimTemplate) -> None:
    later = replace(rim, version=rim.version[:-1] + ("0" if rim.version[-1] != "0" else "1"))
    with pytest.raises(EndorsementError) as raised:
        read_answer(NvidiaRimRequest(id=rim.id), rim_answer(later), source="https://rim.example/")
    assert raised.value.code == "rim-answer-invalid"


def test_a_rim_without_certificates_is_left_to_verification() -> None:
    bare = rim_answer(replace(DRIVER, certificates=DRIVER.certificates[:1]))
    answer = read_answer(REQUEST, bare, source="https://rim.example/", received=AT)
    assert (answer.dates, answer.issued) == ((), None)


# -- the key


@pytest.mark.loopback
def test_a_service_key_goes_into_one_header(server: Server, watch: Watch) -> None:
    server.answering = simulated_rims()
    key = read_service_key(b"nvapi-abc_123\n")
    with RimServiceClient(timing=watch.timing(), base_url=server.url, service_key=key, trust_env=False) as client:
        client.get(REQUEST, progress=quiet)
    assert server.headers[0]["Authorization"] == "Bearer nvapi-abc_123"


# -- the cache


@pytest.fixture
def filled(server: Server, rims: RimServiceClient, cache: EndorsementCache) -> EndorsementCache:
    gather_endorsements([REQUEST], at=AT, source=rims, cache=cache).require()
    server.requests.clear()
    return cache


@pytest.mark.loopback
@pytest.mark.parametrize(
    ("later", "asked"),
    [(timedelta(0), 0), (RIM_DAYS - SECOND, 0), (RIM_DAYS, 1), (-SECOND, 1), (timedelta(days=4000), 1)],
)
def test_a_rim_is_kept_for_some_days_and_not_for_ever(
    server: Server, rims: RimServiceClient, filled: EndorsementCache, later: timedelta, asked: int
) -> None:
    found = gather_endorsements([REQUEST], at=AT + later, source=rims, cache=filled)
    assert found.failures == ()
    assert len(server.requests) == asked
    server.requests.clear()
    if later < timedelta(days=400):  # else it is out of date, and so is what the service still has
        gather_endorsements([REQUEST], at=AT + later, source=rims, cache=filled)
        assert server.requests == []


@pytest.mark.loopback
def test_a_rim_that_ends_soon_is_kept_for_a_day(
    server: Server, rims: RimServiceClient, cache: EndorsementCache
) -> None:
    answer = read_answer(REQUEST, WHOLE, source="x", received=AT)
    near = min(ends for _, ends in answer.dates) - RENEWAL_DAYS + SECOND
    for later, asked in ((timedelta(0), 1), (EXPIRING_RIM_DAYS - SECOND, 0), (EXPIRING_RIM_DAYS, 1)):
        server.requests.clear()
        gather_endorsements([REQUEST], at=near + later, source=rims, cache=cache).require()
        assert len(server.requests) == asked


@pytest.mark.loopback
def test_offline_a_rim_of_any_age_is_left_to_verification(
    server: Server, rims: RimServiceClient, filled: EndorsementCache
) -> None:
    late = AT + timedelta(days=4000)
    found = gather_endorsements([REQUEST], at=late, source=rims, cache=filled, offline=True)
    assert (len(found.endorsements.rims), found.failures, server.requests) == (1, (), [])


@pytest.mark.loopback
def test_a_newer_issue_takes_the_place_of_an_older_one_and_not_the_reverse(
    server: Server, rims: RimServiceClient, cache: EndorsementCache
) -> None:
    old, new = (SimulatedNvidiaService.of(AT.replace(year=year)) for year in (2025, 2026))
    for service, kept in ((old, old), (new, new), (old, new)):
        server.answering = simulated_rims(service)
        at = AT + RIM_DAYS * (len(server.requests) + 1)
        gather_endorsements([REQUEST], at=at, source=rims, cache=cache).require()
        offline = gather_endorsements([REQUEST], at=at, source=rims, cache=cache, offline=True)
        (entry,) = offline.entries
        assert entry.data == kept.answer(f"/v1/rim/{DRIVER.id}").body
    both = gather_endorsements([REQUEST], at=AT + RIM_DAYS * 9, source=rims, cache=cache)
    assert len(both.endorsements.rims) == 2  # each is judged as a whole; one that fits suffices


@pytest.mark.loopback
def test_a_record_whose_moment_was_taken_out_is_fetched_again(
    server: Server, rims: RimServiceClient, filled: EndorsementCache
) -> None:
    (path,) = filled.directory.rglob("*.cbor")
    path.write_bytes(path.read_bytes().replace(b"received", b"retrieve"))
    gather_endorsements([REQUEST], at=AT, source=rims, cache=filled).require()
    assert len(server.requests) == 1
