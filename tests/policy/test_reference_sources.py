"""Reference values from verified evidence and from RIMs."""

from hashlib import sha256

import pytest

from attest.endorsements.anchors import TrustAnchors
from attest.errors import ConfigurationError
from attest.evidence.azure.structure import HclReportType
from attest.evidence.envelope import MEDIA_NVIDIA_DEVICE, Evidence, EvidenceItem
from attest.evidence.gpu.verify import VerifiedGpu
from attest.policy.reference_values.reference_sources import references_from, references_from_rims
from attest.verification import ExpectedFreshness, verify
from attest_simulator.nvidia import SimulatedGpu
from tests.evidence.azure.made import PCRS, AzureVm, judged, quote
from tests.policy.documents import MEASUREMENT
from tests.samples import AT, NO_CRL, scene
from tests.samples_intel import intel_scene


def gpu() -> VerifiedGpu:
    """Verify a simulated GPU."""
    device = SimulatedGpu.of("gpu")
    nonce = bytes(range(32))
    item = EvidenceItem(name="gpu0", media_type=MEDIA_NVIDIA_DEVICE, value=device.device_item(nonce))
    verified = verify(
        Evidence(items=(item,)),
        endorsements=device.endorsements(at=AT),
        anchors=TrustAnchors.simulation(),
        at=AT,
        expected=ExpectedFreshness(nonce=nonce),
    )
    found = verified.items[0].verified
    assert isinstance(found, VerifiedGpu)
    return found


def test_a_guests_measurement_is_written_down() -> None:
    found = references_from([("cpu", scene().verify(unchecked=NO_CRL))])
    assert found["cpu-snp-measurement"].values == (bytes.fromhex(MEASUREMENT),)
    assert found["cpu-snp-measurement"].kind == "snp-measurement"
    assert "cpu-snp-host-data" not in found  # zeros


def test_kinds_may_be_chosen() -> None:
    verified = scene().verify(unchecked=NO_CRL)
    assert set(references_from([("cpu", verified)], kinds=frozenset({"snp-measurement"}))) == {"cpu-snp-measurement"}
    with pytest.raises(ConfigurationError) as caught:
        references_from([("cpu", verified)], kinds=frozenset({"tdx-mr-td"}))
    assert caught.value.code == "references-empty"


@pytest.mark.parametrize("kind", HclReportType)
def test_of_an_azure_vm_its_paravisor_and_what_it_booted_are_written_down(kind: HclReportType) -> None:
    found = references_from((item.name, item.verified) for item in judged(AzureVm(kind=kind)).items)
    assert ("cpu-snp-measurement" if kind is HclReportType.SNP else "cpu-tdx-mr-td") in found
    assert found["cpu-azure-pcr4"].kind == "azure-pcr4"
    assert found["cpu-azure-pcr4"].values == (PCRS[4],)
    measured = {register for register, value in enumerate(PCRS) if value not in (bytes(32), b"\xff" * 32)}
    assert {name for name in found if "pcr" in name} == {f"cpu-azure-pcr{register}" for register in measured}


def test_a_register_of_ones_was_never_extended() -> None:
    pcrs = (*PCRS[:17], b"\xff" * 32, *PCRS[18:])
    verified = judged(AzureVm(tpm=quote(pcr_digest=sha256(b"".join(pcrs)).digest()), pcrs=pcrs))
    assert "cpu-azure-pcr17" not in references_from((item.name, item.verified) for item in verified.items)


def test_a_td_and_an_enclave_are_written_down() -> None:
    honest = intel_scene()
    td = honest.verify(honest.td.quote(bytes(64))).items[0].verified
    enclave = honest.verify(honest.enclave.quote(bytes(64)), endorsements=honest.endorsements("sgx")).items[0].verified
    found = references_from([("cpu", td), ("cpu", enclave)])
    assert {"cpu-tdx-mr-td", "cpu-tdx-mr-seam", "cpu-sgx-mr-enclave", "cpu-sgx-mr-signer"} <= set(found)
    assert len(found["cpu-sgx-mr-enclave"].values[0]) == 32


def test_devices_of_one_kind_share_their_names() -> None:
    one = gpu()
    found = references_from([("gpu0", one), ("gpu1", one), ("7", one)])
    assert set(found) == {"gpu-gpu-fwid", "gpu-nvidia-rim", "7-gpu-fwid", "7-nvidia-rim"}
    assert len(found["gpu-gpu-fwid"].values) == 1
    assert len(found["gpu-nvidia-rim"].values) == 2


def test_rims_are_listed_by_id_with_their_version() -> None:
    device = gpu()
    assert device.driver_rim is not None
    found = references_from_rims([device.driver_rim])
    (name, entry), *_ = found.items()
    assert (name, entry.values) == (device.driver_rim.parsed.tag_id, (device.driver_rim.parsed.document.sha256,))
    assert device.driver_rim.parsed.version in str(entry.origin)


def test_nothing_gives_nothing_and_says_so() -> None:
    for given in ([], [("x", object())]):
        with pytest.raises(ConfigurationError) as caught:
            references_from(given)
        assert caught.value.code == "references-empty"
    with pytest.raises(ConfigurationError):
        references_from_rims([])


def test_a_gpu_without_rims_has_its_firmware_id() -> None:
    from dataclasses import replace

    bare = replace(gpu(), driver_rim=None, vbios_rim=None)
    assert set(references_from([("gpu0", bare)])) == {"gpu-gpu-fwid"}
