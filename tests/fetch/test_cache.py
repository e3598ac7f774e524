"""The cache on disk: private, never half written, and believed in nothing."""

import os
import stat
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attest.encoding import cbor_bytes, cbor_value
from attest.endorsements.requests import AmdChainRequest, AmdCrlRequest, AmdVcekRequest
from attest.errors import ConfigurationError
from attest.fetch.answers import CheckedAnswer, read_answer
from attest.fetch.cache import EndorsementCache, default_cache_directory
from tests.fetch.conftest import simulated

SERVICE = "https://kds.example"
CHAIN = AmdChainRequest(product="Milan", kind="vcek")
CRL = AmdCrlRequest(product="Milan", kind="vcek")


def answer(request: AmdChainRequest | AmdCrlRequest) -> CheckedAnswer:
    item = "cert_chain" if isinstance(request, AmdChainRequest) else "crl"
    body = simulated()(f"/{request.kind}/v1/{request.product}/{item}", "").body
    return read_answer(request, body, source=f"{SERVICE}/x")


@pytest.fixture
def cache(tmp_path: Path) -> EndorsementCache:
    return EndorsementCache(tmp_path / "a" / "b")


def only_file(cache: EndorsementCache) -> Path:
    (path,) = [path for path in cache.directory.rglob("*") if path.is_file()]
    return path


# -- where


@pytest.mark.parametrize(
    ("environ", "directory"),
    [
        ({"XDG_CACHE_HOME": "/var/c", "HOME": "/u"}, "/var/c/attest/endorsements"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/u"}, "/u/.cache/attest/endorsements"),
        ({"XDG_CACHE_HOME": "", "HOME": "/u"}, "/u/.cache/attest/endorsements"),
        ({"HOME": "/u"}, "/u/.cache/attest/endorsements"),
    ],
)
def test_the_cache_lies_where_xdg_says(environ: dict[str, str], directory: str) -> None:
    assert default_cache_directory(environ) == Path(directory)


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "here", "XDG_CACHE_HOME": "there"}])
def test_without_an_absolute_place_there_is_no_cache(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError) as raised:
        default_cache_directory(environ)
    assert raised.value.code == "endorsement-cache-unusable"


# -- what is kept


def test_what_was_written_comes_back(cache: EndorsementCache) -> None:
    for request in (CHAIN, CRL):
        assert cache.read(request, service=SERVICE) is None
        kept = answer(request)
        cache.write(kept, service=SERVICE)
        assert cache.read(request, service=SERVICE) == replace(kept, cached=True)


def test_other_requests_and_other_services_have_their_own_answers(cache: EndorsementCache) -> None:
    cache.write(answer(CHAIN), service=SERVICE)
    assert cache.read(CHAIN, service=f"{SERVICE}/mirror") is None
    assert cache.read(AmdChainRequest(product="Milan", kind="vlek"), service=SERVICE) is None
    assert cache.read(AmdChainRequest(product="Genoa", kind="vcek"), service=SERVICE) is None
    assert cache.read(CRL, service=SERVICE) is None
    vcek = AmdVcekRequest(product="Milan", hwid=bytes(64), spls=(("blSPL", 1),))
    assert cache.read(vcek, service=SERVICE) is None


def test_files_and_directories_are_for_their_owner_alone(cache: EndorsementCache) -> None:
    before = os.umask(0)
    try:
        cache.write(answer(CHAIN), service=SERVICE)
    finally:
        os.umask(before)
    path = only_file(cache)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for directory in (path.parent, cache.directory, cache.directory.parent):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_later_answer_takes_the_place_of_the_earlier(cache: EndorsementCache) -> None:
    cache.write(answer(CRL), service=SERVICE)
    body = simulated(revoked=(65537,))("/vcek/v1/Milan/crl", "").body
    cache.write(read_answer(CRL, body, source="elsewhere"), service=SERVICE)
    found = cache.read(CRL, service=SERVICE)
    assert found is not None
    assert found.crls[0].revoked == {65537}
    assert only_file(cache).suffix == ".cbor"


# -- damage


@pytest.mark.parametrize("length", [0, 1, 100, -1])
def test_a_record_that_is_cut_off_counts_as_absent_and_is_replaced(cache: EndorsementCache, length: int) -> None:
    cache.write(answer(CHAIN), service=SERVICE)
    path = only_file(cache)
    whole = path.read_bytes()
    path.write_bytes(whole[:length])
    assert cache.read(CHAIN, service=SERVICE) is None
    cache.write(answer(CHAIN), service=SERVICE)
    assert path.read_bytes() == whole


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_flipped_byte_makes_a_record_absent(cache: EndorsementCache, data: st.DataObject) -> None:
    cache.write(answer(CRL), service=SERVICE)
    path = only_file(cache)
    whole = path.read_bytes()
    at, mask = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(1, 255))
    path.write_bytes(whole[:at] + bytes([whole[at] ^ mask]) + whole[at + 1 :])
    assert cache.read(CRL, service=SERVICE) is None


@pytest.mark.parametrize(
    "record",
    [
        b"garbage",
        cbor_bytes("text"),
        cbor_bytes({}),
        cbor_bytes({"source": 1, "data": b""}),
        cbor_bytes({"source": "x", "data": "text"}),
        cbor_bytes({"source": "x", "data": b"garbage"}),
        bytes(1024 * 1024),
    ],
)
def test_what_is_no_record_counts_as_absent(cache: EndorsementCache, record: bytes) -> None:
    cache.write(answer(CHAIN), service=SERVICE)
    only_file(cache).write_bytes(record)
    assert cache.read(CHAIN, service=SERVICE) is None


def test_a_record_that_was_moved_to_another_requests_place_counts_as_absent(cache: EndorsementCache) -> None:
    cache.write(answer(CHAIN), service=SERVICE)
    path = only_file(cache)
    record = dict(cbor_value(path.read_bytes(), what="record"))  # type: ignore[arg-type]  # it is a map
    for name, value in (("service", "https://other.example"), ("request", b"other"), ("format", "attest.cache/2")):
        path.write_bytes(cbor_bytes({**record, name: value}))
        assert cache.read(CHAIN, service=SERVICE) is None
    path.write_bytes(cbor_bytes(record))
    assert cache.read(CHAIN, service=SERVICE) is not None


def test_a_file_that_a_killed_writer_left_behind_does_no_harm(cache: EndorsementCache) -> None:
    cache.write(answer(CHAIN), service=SERVICE)
    path = only_file(cache)
    (path.parent / f".{path.stem[:16]}-killed.tmp").write_bytes(path.read_bytes()[:100])
    assert cache.read(CHAIN, service=SERVICE) is not None
    cache.write(answer(CHAIN), service=SERVICE)
    assert cache.read(CHAIN, service=SERVICE) is not None


def test_a_write_that_fails_leaves_the_old_record_and_nothing_else(cache: EndorsementCache) -> None:
    cache.write(answer(CHAIN), service=SERVICE)
    path = only_file(cache)
    path.unlink()
    (path / "in the way").mkdir(parents=True)  # renaming onto a directory fails
    with pytest.raises(ConfigurationError) as raised:
        cache.write(answer(CHAIN), service=SERVICE)
    assert raised.value.code == "endorsement-cache-unusable"
    assert [left.name for left in path.parent.iterdir()] == [path.name]


def test_concurrent_writers_and_readers_see_whole_records_only(cache: EndorsementCache) -> None:
    bodies = [simulated(revoked=(serial,))("/vcek/v1/Milan/crl", "").body for serial in (1, 2)]
    answers = [read_answer(CRL, body, source="x") for body in bodies]
    cache.write(answers[0], service=SERVICE)
    found: list[CheckedAnswer | None] = []

    def write(kept: CheckedAnswer) -> None:
        for _ in range(20):
            cache.write(kept, service=SERVICE)

    def read() -> None:
        found.extend(cache.read(CRL, service=SERVICE) for _ in range(100))

    threads = [threading.Thread(target=write, args=(kept,)) for kept in answers * 2] + [threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert None not in found
    assert only_file(cache).suffix == ".cbor"


# -- a place that cannot be used


def test_a_file_in_the_place_of_the_directory_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = EndorsementCache(tmp_path / "file")
    refusals: list[ConfigurationError] = []
    with pytest.raises(ConfigurationError) as raised:
        cache.read(CHAIN, service=SERVICE)
    refusals.append(raised.value)
    with pytest.raises(ConfigurationError) as raised:
        cache.write(answer(CHAIN), service=SERVICE)
    refusals.append(raised.value)
    for refusal in refusals:
        assert (refusal.code, refusal.exit_code) == ("endorsement-cache-unusable", 2)
        assert str(tmp_path / "file") in refusal.message
        assert "XDG_CACHE_HOME" in (refusal.hint or "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every directory")
def test_a_directory_that_may_not_be_read_is_a_clear_error(cache: EndorsementCache) -> None:
    cache.write(answer(CHAIN), service=SERVICE)
    directory = only_file(cache).parent
    directory.chmod(0)
    try:
        with pytest.raises(ConfigurationError):
            cache.read(CHAIN, service=SERVICE)
        with pytest.raises(ConfigurationError):
            cache.write(answer(CHAIN), service=SERVICE)
    finally:
        directory.chmod(0o700)
