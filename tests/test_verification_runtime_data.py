"""Runtime data of the KBS protocol in the place of a binding: one digest in the CPU's report, one in every device."""

import base64
import json
from collections.abc import Mapping
from hashlib import sha256, sha384, sha512

import pytest

from attest import ExpectedRuntimeData
from attest.appraisal import device_set
from attest.checks import Outcome
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import NO_ENDORSEMENTS, Endorsements
from attest.errors import AttestError, BindingError
from attest.evidence.azure.structure import HclReportType
from attest.evidence.envelope import (
    MEDIA_BINDING,
    MEDIA_PROVIDER_DOCUMENT,
    MEDIA_SAMPLE,
    MEDIA_SAMPLE_DEVICE,
    MEDIA_SNP_REPORT,
    Evidence,
    EvidenceItem,
)
from attest.verification import Freshness, VerifiedEvidence, verify
from attest_simulator.nvidia import SimulatedBoard
from tests.evidence.azure.made import AzureVm, quote
from tests.evidence.azure.made import item as azure_item
from tests.policy.intel_documents import TD, collateral, quote_evidence
from tests.samples import AT, binding, bound_evidence, scene

HONEST = scene()
BOARD = SimulatedBoard.of("two GPUs", gpus=2, switches=0)
KEY = {"crv": "P-256", "kty": "EC"}
NONCE = base64.b64encode(bytes(range(32))).decode()
LISTED = "the runtime data, to which the CPU's report commits, lists the devices' evidence"


def digest(**document: object) -> bytes:
    """The digest of a canonical document of strings, as the protocol has it."""
    members = {**document, "nonce": NONCE, "tee-pubkey": KEY}
    return sha384(json.dumps(members, sort_keys=True, separators=(",", ":")).encode()).digest()


DEVICE_DIGEST = digest()


def additional(devices: tuple[EvidenceItem, ...]) -> str:
    """The string of the devices' evidence, as it travels."""
    return json.dumps({item.name: item.value.decode("latin-1") for item in devices}) if devices else ""


def expected(*devices: EvidenceItem) -> ExpectedRuntimeData:
    """What the service expects of a challenge, once it has seen the devices' evidence."""
    return ExpectedRuntimeData(
        digest=digest(**{"additional-evidence": additional(devices)}), device_digest=DEVICE_DIGEST
    )


def sample(report_data: bytes, name: str = "sampledevice0") -> EvidenceItem:
    value = json.dumps({"svn": "2", "report_data": base64.b64encode(report_data).decode()}).encode()
    media_type = MEDIA_SAMPLE if name == "cpu" else MEDIA_SAMPLE_DEVICE
    return EvidenceItem(name=name, media_type=media_type, value=value)


def snp(report_data: bytes) -> EvidenceItem:
    return EvidenceItem(name="cpu", media_type=MEDIA_SNP_REPORT, value=HONEST.guest.report(report_data))


def run(
    *items: EvidenceItem, expected: ExpectedRuntimeData, endorsements: Endorsements = HONEST.endorsements
) -> VerifiedEvidence:
    return verify(
        Evidence(items=items),
        endorsements=endorsements.merged(BOARD.endorsements(at=AT)),
        anchors=TrustAnchors.simulation(),
        at=AT,
        expected=expected,
    )


def refused(
    *items: EvidenceItem, expected: ExpectedRuntimeData, endorsements: Endorsements = HONEST.endorsements
) -> AttestError:
    with pytest.raises(AttestError) as caught:
        run(*items, expected=expected, endorsements=endorsements)
    return caught.value


def outcomes(source: VerifiedEvidence | AttestError) -> Mapping[str, Outcome]:
    return {check.id: check.outcome for check in source.checks if check.item is None}


GPUS = BOARD.items(DEVICE_DIGEST[:32])
DEVICES = (*GPUS, sample(DEVICE_DIGEST))


def committed(*devices: EvidenceItem) -> bytes:
    return expected(*devices).digest.ljust(64, b"\0")


def test_a_cpu_report_with_the_digest_is_fresh() -> None:
    verified = run(snp(committed()), expected=expected())
    assert verified.freshness is Freshness.MATCHED
    assert outcomes(verified) == {"freshness": Outcome.PASS}
    assert not verified.devices_bound


def test_sample_evidence_with_the_digest_is_fresh() -> None:
    assert run(sample(committed()[:48], "cpu"), expected=expected()).freshness is Freshness.MATCHED
    assert run(sample(committed(), "cpu"), expected=expected()).freshness is Freshness.MATCHED


def test_a_quote_of_a_td_with_the_digest_is_fresh() -> None:
    (item,) = quote_evidence(TD.quote(committed(), version=4)).items
    verified = run(item, expected=expected(), endorsements=collateral("tdx"))
    assert verified.freshness is Freshness.MATCHED


def test_the_devices_that_the_runtime_data_lists_are_bound_to_the_cpu() -> None:
    verified = run(snp(committed(*DEVICES)), *DEVICES, expected=expected(*DEVICES))
    assert outcomes(verified)["binding.devices"] is Outcome.PASS
    assert outcomes(verified)["binding.device_nonce"] is Outcome.PASS
    assert [check.expected for check in verified.checks if check.id == "binding.devices"] == [LISTED]
    assert verified.freshness is Freshness.MATCHED
    assert (verified.binding, verified.devices_bound, device_set(verified).bound) == (None, True, True)


@pytest.mark.parametrize("changed", [DEVICES[1:], DEVICES[:-1], (), (*DEVICES, sample(DEVICE_DIGEST, "gpu9"))])
def test_a_device_that_is_missing_or_added_changes_the_digest(changed: tuple[EvidenceItem, ...]) -> None:
    """The CPU's report is over the devices as collected; what was presented gives another digest."""
    error = refused(snp(committed(*DEVICES)), *changed, expected=expected(*changed))
    assert error.code == "report-data-mismatch"
    if changed:
        assert outcomes(error)["binding.devices"] is Outcome.NOT_EVALUATED


def test_every_flipped_bit_of_the_digest_in_the_cpus_report_is_refused() -> None:
    honest = committed()
    for position in range(8 * 64):
        changed = bytearray(honest)
        changed[position // 8] ^= 1 << position % 8
        assert refused(sample(bytes(changed), "cpu"), expected=expected()).code == "report-data-mismatch"


def test_every_flipped_bit_of_the_digest_in_a_device_is_refused() -> None:
    for position in range(8 * 48):
        changed = bytearray(DEVICE_DIGEST)
        changed[position // 8] ^= 1 << position % 8
        device = sample(bytes(changed))
        error = refused(sample(committed(device), "cpu"), device, expected=expected(device))
        assert (error.code, error.check) == ("device-nonce-mismatch", "binding.device_nonce")


@pytest.mark.parametrize(
    "nonce",
    [DEVICE_DIGEST[:31] + bytes([DEVICE_DIGEST[31] ^ 1]), DEVICE_DIGEST[16:], committed()[:32]],
    ids=["flipped", "shifted", "that of the CPU"],
)
def test_a_gpu_under_another_nonce_is_refused(nonce: bytes) -> None:
    devices = (GPUS[0], BOARD.items(nonce)[1])
    error = refused(snp(committed(*devices)), *devices, expected=expected(*devices))
    assert (error.code, error.field) == ("device-nonce-mismatch", f"{devices[1].name}: nonce")


def test_a_sample_device_carries_the_whole_digest() -> None:
    for short in (DEVICE_DIGEST[:32], DEVICE_DIGEST + b"\0", b""):
        device = sample(short)
        error = refused(sample(committed(device), "cpu"), device, expected=expected(device))
        assert error.code == "device-nonce-mismatch"


def test_swapped_digests_are_refused() -> None:
    device = sample(expected().digest)
    swapped = ExpectedRuntimeData(digest=DEVICE_DIGEST, device_digest=expected(device).digest)
    error = refused(sample(committed(device), "cpu"), device, expected=swapped)
    assert isinstance(error, BindingError)
    assert outcomes(error)["freshness"] is Outcome.FAIL
    assert outcomes(error)["binding.device_nonce"] is Outcome.FAIL


def test_devices_without_a_cpu_are_refused() -> None:
    error = refused(*DEVICES, expected=expected(*DEVICES))
    assert (error.code, error.check) == ("runtime-data-uncommitted", "binding.devices")
    assert outcomes(error)["freshness"] is Outcome.NOT_EVALUATED


def test_a_binding_beside_runtime_data_is_refused() -> None:
    bound = binding()
    evidence = bound_evidence(HONEST.guest, bound)
    error = refused(*evidence.items, expected=ExpectedRuntimeData(digest=bound.report_data(), device_digest=bytes(32)))
    assert (error.code, error.check) == ("binding-unexpected", "binding.report_data")
    loose = EvidenceItem(name="binding", media_type=MEDIA_BINDING, value=bound.to_bytes())
    assert refused(snp(committed()), loose, expected=expected()).code == "binding-unexpected"


@pytest.mark.parametrize("hashed", [sha256, sha384, sha512])
def test_digests_of_32_to_64_bytes_are_expected_whole(hashed: object) -> None:
    found = hashed(b"runtime data").digest()  # type: ignore[operator]
    wanted = ExpectedRuntimeData(digest=found, device_digest=found)
    device = sample(found)
    verified = run(sample(found, "cpu"), device, expected=wanted)
    assert (verified.freshness, verified.devices_bound) == (Freshness.MATCHED, True)


@pytest.mark.parametrize("name", ["digest", "device_digest"])
@pytest.mark.parametrize("length", [0, 31, 65])
def test_a_digest_of_another_length_is_a_mistake_of_the_caller(name: str, length: int) -> None:
    given = {"digest": bytes(48), "device_digest": bytes(48)} | {name: bytes(length)}
    with pytest.raises(ValueError, match=name):
        ExpectedRuntimeData(**given)


def test_a_services_document_carries_no_runtime_data() -> None:
    item = EvidenceItem(name="document", media_type=MEDIA_PROVIDER_DOCUMENT, value=b"{}")
    with pytest.raises(ValueError, match="report data follow from its keys"):
        run(item, expected=expected(), endorsements=NO_ENDORSEMENTS)


# -- behind a virtual TPM


def azure(
    extra_data: bytes, user_data: bytes, kind: HclReportType = HclReportType.SNP
) -> tuple[EvidenceItem, Endorsements]:
    """The evidence of a VM, and what AMD or Intel say of it."""
    vm = AzureVm(kind=kind, tpm=quote(extra_data=extra_data), claims={"user-data": user_data.hex()})
    return azure_item(vm.json), vm.endorsements


DIGEST = expected().digest


@pytest.mark.parametrize("kind", list(HclReportType))
@pytest.mark.parametrize("user_data", [bytes(64), committed(), DIGEST + b"more".ljust(16, b"!")])
def test_a_virtual_tpm_carries_the_digest_as_it_is(kind: HclReportType, user_data: bytes) -> None:
    item, endorsements = azure(DIGEST, user_data, kind)
    verified = run(item, expected=expected(), endorsements=endorsements)
    assert verified.freshness is Freshness.MATCHED


@pytest.mark.parametrize(
    ("extra_data", "user_data", "code"),
    [
        (DIGEST[:-1], bytes(64), "nonce-mismatch"),
        (DIGEST + b"\0", bytes(64), "nonce-mismatch"),
        (DIGEST[:47] + bytes([DIGEST[47] ^ 1]), committed(), "nonce-mismatch"),
        (b"", committed(), "nonce-mismatch"),
        (DIGEST, bytes(63) + b"\1", "report-data-mismatch"),
        (DIGEST, DIGEST[:47] + bytes([DIGEST[47] ^ 1]) + bytes(16), "report-data-mismatch"),
    ],
)
def test_an_old_quote_or_another_partys_user_data_is_refused(extra_data: bytes, user_data: bytes, code: str) -> None:
    item, endorsements = azure(extra_data, user_data)
    assert refused(item, expected=expected(), endorsements=endorsements).code == code


def test_the_devices_of_a_vm_with_a_virtual_tpm_are_bound_by_its_quote() -> None:
    item, endorsements = azure(expected(*GPUS).digest, bytes(64))
    verified = run(item, *GPUS, expected=expected(*GPUS), endorsements=endorsements)
    assert (verified.devices_bound, device_set(verified).cpu_kind) == (True, "azure-snp")


def test_a_sample_device_is_no_cpu_of_a_set() -> None:
    alone = verify(
        Evidence(items=(sample(DEVICE_DIGEST), *GPUS)),
        endorsements=BOARD.endorsements(at=AT),
        anchors=TrustAnchors.simulation(),
        at=AT,
    )
    assert (device_set(alone).cpu_kind, device_set(alone).bound) == (None, False)
    assert device_set(alone._replace(devices_bound=True)).bound is False
