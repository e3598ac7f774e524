"""`attest endorsements`, and what `verify` fetches when it may."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from attest.clock import this_second
from attest.encoding import rfc3339_text
from attest_simulator.intel import SimulatedEnclave, SimulatedPcs, SimulatedPlatform, SimulatedTd
from tests.cli.conftest import Attest, Files

LAB = ("--allow-simulated",)
PLATFORM = SimulatedPlatform.of()


@pytest.fixture
def kds() -> Iterator[tuple[str, list[str]]]:
    """A simulated service on the loopback address, and what was asked of it."""
    from attest_simulator.cli.services import kds_of_today

    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            url = urlsplit(self.path)
            answer = kds_of_today().answer(url.path, url.query)
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.loopback
def test_what_is_missing_is_fetched_once_and_kept(attest: Attest, files: Files, kds: tuple[str, list[str]]) -> None:
    url, asked = kds
    ran = attest("verify", files.report, *LAB, "--kds", url, "--cache", "cache", "--json")
    assert ran.code == 0
    assert len(asked) == 3
    assert attest("verify", files.report, *LAB, "--kds", url, "--cache", "cache", "-q").code == 0
    assert len(asked) == 3


@pytest.mark.loopback
def test_nothing_is_fetched_when_nothing_is_missing_or_when_offline(
    attest: Attest, files: Files, kds: tuple[str, list[str]]
) -> None:
    url, asked = kds
    bundle = files.folder / "bundle"
    attest("simulate", "endorsements", "-o", bundle)
    assert attest("verify", files.report, *LAB, "--kds", url, "--endorsements", bundle, "-q").code == 0
    assert attest("verify", files.report, *LAB, "--kds", url, "--offline", "-q").code == 5
    assert attest("verify", files.flipped, *LAB, "--kds", url, "-q").code == 4
    assert asked == []


@pytest.mark.loopback
def test_a_report_of_version_2_is_asked_for_by_its_product(
    attest: Attest, files: Files, kds: tuple[str, list[str]]
) -> None:
    url, asked = kds
    attest("simulate", "evidence", "--report-version", "2", "--form", "snp-report", "-o", "two.bin")
    assert attest("verify", "two.bin", *LAB, "--kds", url, "--product", "Genoa", "-q").code == 0
    assert all("Genoa" in path for path in asked)


def test_a_service_that_is_not_there_is_exit_5_with_a_warning(attest: Attest, files: Files) -> None:
    vlek = files.folder / "vlek.bin"  # nobody hands out a VLEK, so nothing is asked
    attest("simulate", "evidence", "--vlek", "cloud", "--form", "snp-report", "-o", vlek)
    ran = attest("endorsements", "fetch", vlek, "-o", "bundle")
    assert ran.code == 5
    assert "VLEK" in ran.err
    assert not (files.folder / "bundle").exists()


@pytest.mark.loopback
def test_a_bundle_is_fetched_signed_shown_checked_and_used(
    attest: Attest, files: Files, kds: tuple[str, list[str]]
) -> None:
    url, _ = kds
    private = Ed25519PrivateKey.from_private_bytes(bytes(32))
    key = files.write("key.pem", private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    key.chmod(0o600)
    public = files.write("key.pub", private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    fetch = ("endorsements", "fetch", files.report, "--kds", url, "-o", "bundle")
    assert "valid until" in attest(*fetch, "--sign-with", key, "--days", "7").out
    ran = attest(*fetch)
    assert (ran.code, "already exists" in ran.err) == (2, True)
    assert attest(*fetch, "--force", "--sign-with", key, "--json").document["verified"] is False
    ran = attest("endorsements", "check", "bundle", "--bundle-key", public, "--json")
    assert (ran.code, len(ran.document["signed_by"]), ran.document["entries"]) == (0, 1, 3)
    assert "valid until" in attest("endorsements", "check", "bundle").out
    later = rfc3339_text(this_second().replace(year=this_second().year + 2, day=1))
    ran = attest("endorsements", "check", "bundle", "--at", later)
    assert (ran.code, "expired" in ran.err) == (5, True)
    used = ("--endorsements", "bundle", "--bundle-key", public, "--offline", "-q")
    assert attest("verify", files.report, *LAB, *used).code == 0


@pytest.fixture
def pcs() -> Iterator[tuple[str, list[str]]]:
    """A simulated PCCS on the loopback address, and what was asked of it."""
    asked: list[str] = []
    service = SimulatedPcs.of(PLATFORM, at=this_second(), pccs=True)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            url = urlsplit(self.path)
            answer = service.answer(url.path, url.query)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


QUOTES = {
    "tdx": SimulatedTd(platform=PLATFORM).quote(Files.REPORT_DATA),
    "sgx": SimulatedEnclave(platform=PLATFORM).quote(Files.REPORT_DATA),
}


@pytest.mark.loopback
@pytest.mark.parametrize("tee", QUOTES)
def test_what_a_quote_needs_is_fetched_once_and_kept(
    attest: Attest, files: Files, pcs: tuple[str, list[str]], tee: str
) -> None:
    url, asked = pcs
    verify = ("verify", files.write("quote.bin", QUOTES[tee]), *LAB, "--nonce-text", files.NONCE, "--pcs", url)
    assert attest(*verify, "--offline", "-q").code == 5
    assert asked == []
    for _ in range(2):
        ran = attest(*verify, "--json")
        assert (ran.code, ran.document["items"][0]["kind"], len(asked)) == (0, tee, 4)
    assert attest(*verify, "--pcs-update", "early", "-q").code == 0
    assert sum("update=early" in path for path in asked) == 2


@pytest.mark.loopback
def test_a_bundle_for_a_quote_is_fetched_shown_and_used(
    attest: Attest, files: Files, pcs: tuple[str, list[str]]
) -> None:
    url, _ = pcs
    both = [files.write(f"{tee}.bin", quote) for tee, quote in QUOTES.items()]
    ran = attest("endorsements", "fetch", *both, "--pcs", url, "-o", "bundle")
    assert (ran.code, "intel-tcb-info from" in ran.out, "intel-crl from" in ran.out) == (0, True, True)
    shown = attest("endorsements", "show", "bundle", "--json").document["files"][0]["bundle"]
    assert len(shown["entries"]) == 6  # both lists serve both
    for quote in both:
        assert attest("verify", quote, *LAB, "--endorsements", "bundle", "--offline", "-q").code == 0


@pytest.mark.loopback
def test_a_platform_that_intel_does_not_know_is_exit_5_and_named(
    attest: Attest, files: Files, pcs: tuple[str, list[str]]
) -> None:
    url, _ = pcs
    stranger = SimulatedTd(platform=SimulatedPlatform.of(fmspc=bytes.fromhex("00906ed50000")))
    quote = files.write("quote.bin", stranger.quote(bytes(64)))
    ran = attest("endorsements", "fetch", quote, "--pcs", url, "-o", "bundle")
    assert (ran.code, "00906ed50000" in ran.err, "hint:" in ran.err) == (5, True, True)
    assert not (files.folder / "bundle").exists()
    ran = attest("verify", quote, *LAB, "--pcs", url)
    assert (ran.code, "warning:" in ran.err) == (5, True)


def test_an_address_that_is_none_is_exit_2(attest: Attest, files: Files) -> None:
    quote = files.write("quote.bin", QUOTES["tdx"])
    ran = attest("verify", quote, *LAB, "--pcs", "http://pccs.example")
    assert (ran.code, "pccs.example" in ran.err) == (2, True)


def test_evidence_without_a_report_is_exit_3(attest: Attest, files: Files) -> None:
    files.write("other.json", b'{"other": ["application/x-unknown", "AAAA"]}')
    assert attest("endorsements", "fetch", "other.json", "-o", "b").code == 3
    assert attest("verify", "other.json", "-q").code == 3


def test_keys_and_places_that_are_wrong(attest: Attest, files: Files) -> None:
    fetch = ("endorsements", "fetch", files.report)
    for options in (
        ["-o", "b", "--sign-with", "report.bin"],
        ["-o", "b", "--sign-with", "absent"],
        ["-o", "-", "--json"],
        ["-o", "b", "--days", "0"],
        [],
    ):
        ran = attest(*fetch, *options)
        assert (ran.code, ran.out) == (2, "")
    assert attest("endorsements", "check", files.report).code == 5
    assert attest("endorsements", "show", "absent").code == 2
    assert attest("simulate", "evidence", "-o", "no/such/folder").code == 2
