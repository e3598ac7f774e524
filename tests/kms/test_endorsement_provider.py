"""Endorsements from files and from a vendor's service."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest import Binding, Evidence, EvidenceItem, TrustAnchors, verify
from attest.endorsements.bundle import build_bundle
from attest.endorsements.bundle_records import BundleEntry
from attest.endorsements.intel_answers import intel_answer_bytes
from attest.endorsements.requests import EndorsementRequest
from attest.errors import ConfigurationError, EndorsementError
from attest.evidence.envelope import MEDIA_INTEL_QUOTE, MEDIA_NVIDIA_DEVICE
from attest.evidence.snp.tcb import SnpProduct
from attest.fetch import EndorsementSource, FetchClocks, KdsClient, PcsClient, VendorServices
from attest_simulator import SimulatedKds, simulated_crl
from attest_simulator.intel import SimulatedEnclave, SimulatedPcs, SimulatedPlatform, SimulatedTd
from attest_simulator.nvidia import SimulatedGpu, SimulatedNvidiaService
from kms.release.endorsement_provider import REREAD_SECONDS, EndorsementProvider, FetchService
from tests.kms.support import AT, Harness, Workload

PLATFORM = SimulatedPlatform.of()
CRL = simulated_crl(SnpProduct.GENOA, at=AT)
EVIDENCE = Workload().attest(
    Binding(context="kms-release/v1", role="workload", audience="kms", nonce=b"n" * 32, key=b"k")
)


def provider(
    *paths: Path, report: Callable[[str], None] = lambda _: None, service: FetchService | None = None
) -> EndorsementProvider:
    made = EndorsementProvider(paths, report=report, service=service)
    made.reload(at=AT)
    return made


def test_files_and_directories_are_read_with_all_below_them(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "crl.der").write_bytes(CRL)
    assert len(provider(tmp_path).current(at=AT).crls) == 1
    assert len(provider(tmp_path / "a" / "b" / "crl.der").current(at=AT).crls) == 1
    assert provider().current(at=AT).crls == ()


def test_a_missing_file_is_refused_and_what_was_read_before_stays(tmp_path: Path) -> None:
    path = tmp_path / "crl.der"
    path.write_bytes(CRL)
    one = provider(path)
    path.unlink()
    with pytest.raises(ConfigurationError) as caught:
        one.reload(at=AT)
    assert caught.value.code == "endorsements-unreadable"
    assert len(one.current(at=AT).crls) == 1


def test_a_file_that_cannot_be_used_is_reported(tmp_path: Path) -> None:
    (tmp_path / "crl.der").write_bytes(CRL[:-1])
    lines: list[str] = []
    assert provider(tmp_path, report=lines.append).current(at=AT).crls == ()
    assert len(lines) == 1
    assert lines[0].startswith("warning: endorsements: ")


def test_mc_9_a_bundle_that_ends_while_the_service_runs_is_no_longer_used(tmp_path: Path) -> None:
    bundle = build_bundle(
        [BundleEntry(kind="amd-crl", source="test", data=CRL)], created=AT, expires=AT + timedelta(hours=1)
    )
    (tmp_path / "bundle.cbor").write_bytes(bundle.to_bytes())
    one = provider(tmp_path)
    assert one.current(at=AT).crls[0].is_current(AT)
    late = AT + timedelta(hours=1, seconds=REREAD_SECONDS)
    assert not any(crl.is_current(late) for crl in one.current(at=late).crls)


class FakeSource:
    """A vendor's service in memory."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._kds = SimulatedKds(this_update=AT - timedelta(days=1), next_update=AT + timedelta(days=30))
        self._urls = KdsClient(timing=FetchClocks(now=lambda: AT))

    @property
    def service(self) -> str:
        return "fake"

    def url_of(self, request: EndorsementRequest) -> str:
        return self._urls.url_of(request)

    def get(self, request: EndorsementRequest, *, progress: Callable[[str], None]) -> bytes:
        url = self.url_of(request)
        self.asked.append(url)
        path, _, query = url.removeprefix("https://kdsintf.amd.com").partition("?")
        answer = self._kds.answer(path, query)
        if answer.status != 200:
            raise EndorsementError("not there", code="kds-not-found")
        return answer.body


class DeadSource(FakeSource):
    def get(self, request: EndorsementRequest, *, progress: Callable[[str], None]) -> bytes:
        raise EndorsementError("out of reach", code="kds-unreachable", retryable=True)


class FakePcs:
    """Intel's service in memory."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._pcs = SimulatedPcs.of(PLATFORM, at=AT)
        self._urls = PcsClient(timing=FetchClocks(now=lambda: AT))

    @property
    def service(self) -> str:
        return "fake"

    def url_of(self, request: EndorsementRequest) -> str:
        return self._urls.url_of(request)

    def get(self, request: EndorsementRequest, *, progress: Callable[[str], None]) -> bytes:
        url = urlsplit(self.url_of(request))
        self.asked.append(url.path)
        answer = self._pcs.answer(url.path, url.query)
        chain = next((unquote(value) for name, value in answer.headers.items() if "Chain" in name), "")
        return intel_answer_bytes(answer.body, issuer_chain=chain.encode())


def asking(*, amd: EndorsementSource | None = None, intel: EndorsementSource | None = None) -> FetchService:
    nvidia = SimulatedNvidiaService.of(AT)
    vendors = VendorServices(amd=amd or FakeSource(), intel=intel or FakePcs(), rims=nvidia, ocsp=nvidia)
    return FetchService(vendors=vendors, cache=None)


@pytest.mark.parametrize("tee", ["tdx", "sgx"])
def test_what_a_quote_of_intel_needs_is_fetched(tee: str) -> None:
    td = SimulatedTd(platform=PLATFORM) if tee == "tdx" else SimulatedEnclave(platform=PLATFORM)
    item = EvidenceItem(name="cpu", media_type=MEDIA_INTEL_QUOTE, value=td.quote(bytes(64)))
    amd, intel = FakeSource(), FakePcs()
    found = provider(service=asking(amd=amd, intel=intel)).fetched(Evidence(items=(item,)), at=AT)
    assert found is not None
    assert (len(found.documents), len(found.crls)) == (2, 2)
    assert (len(intel.asked), amd.asked) == (4, [])
    verify(Evidence(items=(item,)), endorsements=found, anchors=TrustAnchors.simulation(), at=AT)


def test_what_a_gpu_of_nvidia_needs_is_fetched() -> None:
    value = SimulatedGpu.of("gpu 0").device_item(bytes(32))
    evidence = Evidence(items=(EvidenceItem(name="gpu", media_type=MEDIA_NVIDIA_DEVICE, value=value),))
    found = provider(service=asking()).fetched(evidence, at=AT)
    assert found is not None
    assert len(found.rims) == 2
    assert {answer.status for answer in found.ocsp} == {"good"}


def test_what_the_files_lack_is_fetched_when_that_is_wanted(harness: Harness) -> None:
    source = FakeSource()
    assert provider().fetched(EVIDENCE, at=AT) is None
    assert provider(service=asking(amd=DeadSource())).fetched(EVIDENCE, at=AT) is None
    found = provider(service=asking(amd=source)).fetched(EVIDENCE, at=AT)
    assert found is not None
    assert len(found.crls) == 1
    assert any(url.endswith("/crl") for url in source.asked)


def test_a_release_asks_the_vendor_only_for_what_is_missing(harness: Harness) -> None:
    harness.add_key("model")
    source = FakeSource()
    fetching = EndorsementProvider(harness.settings.endorsements, service=asking(amd=source))
    fetching.reload(at=AT)
    services = replace(harness.services, endorsements=fetching)
    online = Harness(
        folder=harness.folder, settings=harness.settings, services=services, clock=harness.clock, random=harness.random
    )
    online.releases.release(Workload().request(online.releases.challenge(), "model"))
    assert source.asked == []
    (harness.folder / "endorsements" / "crl.der").unlink()
    fetching.reload(at=AT)
    online.releases.release(Workload().request(online.releases.challenge(), "model"))
    assert source.asked != []


def test_settings_may_name_who_signs_bundles_and_which_roots_count(harness: Harness) -> None:
    pem = Ed25519PrivateKey.from_private_bytes(b"s" * 32).public_key()
    key = harness.folder / "signer.pem"
    key.write_bytes(pem.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    anchors = harness.folder / "anchors.toml"
    anchors.write_text('schema = "attest.anchors/1"\nremove = ["ARK-Milan"]\n', encoding="utf-8")
    again = harness.reopened(
        bundle_keys=(key,), anchors_file=anchors, fetch=True, cache_directory=harness.folder / "cache"
    )
    names = {anchor.name for anchor in again.services.anchors.anchors}
    assert "ARK-Milan" not in names
    assert {"ARK-Genoa", "SIMULATED ARK-Milan"} <= names
    again.close()
    for changes in ({"bundle_keys": (harness.folder / "none",)}, {"anchors_file": harness.folder / "none"}):
        with pytest.raises(ConfigurationError) as caught:
            harness.reopened(**changes)
        assert caught.value.code == "file-unreadable"


def test_mc_17_without_the_setting_no_simulated_root_counts(harness: Harness) -> None:
    strict = harness.reopened(allow_simulated=False)
    assert not any(anchor.simulated for anchor in strict.services.anchors.anchors)
    strict.close()
