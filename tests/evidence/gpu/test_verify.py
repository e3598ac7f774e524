"""Is a GPU's report genuine, and does it measure what NVIDIA published? Every check, alone and together."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.checks import Outcome, Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import NO_ENDORSEMENTS, Endorsements
from attest.endorsements.rims import RimDocument
from attest.endorsements.x509 import parse_certificate, parse_crl, pem_blocks
from attest.errors import (
    AttestError,
    BindingError,
    ChainError,
    ConfigurationError,
    EndorsementError,
    EvidenceError,
    RevokedError,
    SignatureError,
    UnsupportedError,
    VerificationError,
)
from attest.evidence.gpu.evidence import ParsedGpuEvidence, parse_nvidia_device, parse_nvidia_report
from attest.evidence.gpu.measurements import compare
from attest.evidence.gpu.mismatches import MAX_OTHER_RIMS, require_no_mismatch
from attest.evidence.gpu.references import Given, JudgedRim, WantedRim
from attest.evidence.gpu.rim import ParsedRim, read_rim
from attest.evidence.gpu.structure import parse_report
from attest.evidence.gpu.verify import GpuSteps, VerifiedGpu, verify_gpu_evidence
from attest.evidence.tolerances import AcceptedValue, DeviceTolerances, GpuTolerances, WaivedMeasurement
from attest_simulator.nvidia import SimulatedGpu, SimulatedNvSwitch
from attest_simulator.nvidia.ocsp import Reason, SimulatedOcsp
from attest_simulator.nvidia.products import PRODUCTS
from attest_simulator.nvidia.rims import RimTemplate, driver_rim, firmware_rim, rim_signer_template, signed_in
from tests.endorsements import made as made_der
from tests.evidence.gpu import made
from tests.evidence.gpu.made_chain import (
    BLACKWELL,
    DIGITAL_SIGNATURE,
    L2_KEY,
    L3_KEY,
    ROOT,
    ROOT_KEY,
    STRANGER_KEY,
    SWITCH,
    WITHOUT,
    MadeDevice,
    composite,
    held,
    name,
    verify,
)
from tests.unknown_values import extended_gpu, opaque_neighbours

T = TypeVar("T")
AT = datetime(2026, 7, 1, tzinfo=UTC)
NONCE = bytes(range(32))
SIMULATION = TrustAnchors.simulation()
NO_OCSP = Unchecked(check="revocation", reason="no responder here")
NO_RIMS = Unchecked(check="rim", reason="no RIMs here")
GPU = SimulatedGpu.of()
SWITCHED = SimulatedNvSwitch.of()
POOL = GPU.endorsements(at=AT)


def rims_of(pool: Endorsements) -> tuple[RimDocument, ...]:
    """Return the RIM of the driver, and then that of the VBIOS: a pool has an order of its own."""
    return tuple(sorted(pool.rims, key=lambda rim: read_rim(rim).version.startswith(("96.", "97."))))


DRIVER, VBIOS = rims_of(POOL)


def judge(
    device: SimulatedGpu | SimulatedNvSwitch = GPU,
    pool: Endorsements = POOL,
    *unchecked: Unchecked,
    at: datetime = AT,
    tolerances: GpuTolerances | None = None,
    anchors: TrustAnchors = SIMULATION,
) -> VerifiedGpu:
    return verify_gpu_evidence(
        parse_nvidia_device(device.device_item(NONCE)),
        endorsements=pool,
        anchors=anchors,
        at=at,
        unchecked=unchecked,
        tolerances=_both(tolerances or GpuTolerances()),
    )


def _both(tolerances: GpuTolerances) -> DeviceTolerances:
    return DeviceTolerances(gpus=tolerances, switches=tolerances)


def refused(*arguments: Any, **more: Any) -> AttestError:  # noqa: ANN401  those of judge
    with pytest.raises(AttestError) as refusal:
        judge(*arguments, **more)
    return refusal.value


def outcomes(found: VerifiedGpu | AttestError) -> dict[str, Outcome]:
    return {check.id: check.outcome for check in found.checks}


def there(found: T | None) -> T:
    """What is there, for the type checker."""
    assert found is not None
    return found


def told(found: VerifiedGpu | AttestError, check: str) -> tuple[Outcome, str]:
    return next((c.outcome, c.got) for c in found.checks if c.id == check)


def failed(found: AttestError) -> set[str]:
    return {check for check, outcome in outcomes(found).items() if outcome is Outcome.FAIL}


# -- what passes


def test_an_honest_gpu_passes_every_check() -> None:
    verified = judge()
    assert [check.id for check in verified.checks] == [step.id for step in GpuSteps()]
    assert set(outcomes(verified).values()) == {Outcome.PASS}
    assert all(check.expected and check.got and check.clause for check in verified.checks)
    assert told(verified, "nvidia.format")[1] == "64 measurements; opaque data types without a known meaning: none"
    assert (verified.kind, verified.architecture, verified.simulated) == ("nvidia-gpu", "hopper", True)
    assert (verified.nonce, verified.fwid_matched, verified.unchecked) == (NONCE, True, ())
    assert (verified.driver_version, verified.vbios_version) == (GPU.driver, GPU.vbios)
    assert there(verified.driver_rim).parsed.document == DRIVER
    assert there(verified.vbios_rim).parsed.document == VBIOS
    assert there(verified.measurements).matched == there(verified.measurements).compared == 33
    assert [len(s) for s in (verified.device_statuses, verified.driver_statuses, verified.vbios_statuses)] == [3, 3, 3]


def test_an_honest_switch_has_one_rim_and_no_driver() -> None:
    verified = judge(SWITCHED, SWITCHED.endorsements(at=AT))
    assert (verified.kind, verified.architecture) == ("nvidia-switch", "ls10")
    assert (verified.driver_version, verified.vbios_version, verified.driver_rim) == (None, SWITCHED.vbios, None)
    assert there(verified.measurements).compared == 31
    assert verified.fwid_matched is None
    lacking = {check for check, outcome in outcomes(verified).items() if outcome is Outcome.NOT_EVALUATED}
    parts = ("", "_signature", "_chain", "_revocation")
    assert lacking == {"nvidia.fwid", "nvidia.rim_conflict", *(f"nvidia.driver_rim{part}" for part in parts)}
    assert told(verified, "nvidia.driver_rim")[1] == "a switch has no driver"


def test_an_honest_blackwell_gpu_passes_without_a_device_key_in_its_leaf() -> None:
    device = SimulatedGpu.of(architecture="blackwell")
    verified = judge(device, device.endorsements(at=AT))
    assert verified.architecture == "blackwell"
    assert told(verified, "nvidia.leaf_binding")[0] is Outcome.NOT_EVALUATED


def test_the_order_and_number_of_rims_says_nothing() -> None:
    others = rims_of(SimulatedGpu.of(driver="550.90.07", vbios="96.00.5E.00.01").endorsements(at=AT))
    unreadable = RimDocument(xml=DRIVER.xml[:-20])
    of_another_product = driver_rim(PRODUCTS["blackwell"], GPU.driver, issued=signed_in(AT)).document()
    strangers = (*others, unreadable, of_another_product)
    for rims in ((VBIOS, DRIVER), (*strangers, DRIVER, VBIOS), (DRIVER, DRIVER, VBIOS)):
        assert outcomes(judge(pool=replace(POOL, rims=rims)))["nvidia.measurements"] is Outcome.PASS


def test_versions_are_compared_without_case() -> None:
    wanted = WantedRim(source="vbios", edition="GPU", product="GH100", version=GPU.vbios.lower())
    assert wanted.fits(parsed_rim(VBIOS))
    assert not wanted.fits(parsed_rim(DRIVER))
    assert not replace(wanted, version=None).fits(parsed_rim(VBIOS))
    assert not replace(wanted, product="GB100").fits(parsed_rim(VBIOS))
    assert not replace(wanted, edition="SWITCH").fits(parsed_rim(VBIOS))
    assert [replace(wanted, edition=e, source=s).text.split()[-2] for e, s in KINDS] == ["driver", "VBIOS", "BIOS"]


KINDS: tuple[tuple[Any, Any], ...] = (("GPU", "driver"), ("GPU", "vbios"), ("SWITCH", "vbios"))


def parsed_rim(document: RimDocument) -> ParsedRim:
    return read_rim(document)


# -- one check fails


def test_a_signature_that_does_not_verify() -> None:
    parsed = parse_nvidia_device(GPU.device_item(NONCE))
    for r, s in ((parsed.report.signature_s, parsed.report.signature_r), (bytes(48), bytes(48)), (b"\xff" * 48,) * 2):
        broken = replace(parsed, report=replace(parsed.report, signature_r=r, signature_s=s))
        with pytest.raises(SignatureError) as refusal:
            verify_gpu_evidence(broken, endorsements=POOL, anchors=SIMULATION, at=AT)
        assert (refusal.value.code, refusal.value.check) == ("gpu-signature-invalid", "nvidia.signature")
        assert failed(refusal.value) == {"nvidia.signature"}


def flips(report: bytes, masks: tuple[int, ...]) -> Iterator[bytes]:
    for at in range(len(report)):
        for mask in masks:
            yield report[:at] + bytes([report[at] ^ mask]) + report[at + 1 :]


def require_every_flip_refused(masks: tuple[int, ...]) -> None:
    device = MadeDevice()
    parsed, report = device.evidence(), device.report()
    verify(parsed)
    for changed in flips(report, masks):
        with pytest.raises((EvidenceError, VerificationError)):
            verify(replace(parsed, report=parse_report(changed)))


def test_every_byte_of_a_report_counts() -> None:
    require_every_flip_refused((0x01,))


@pytest.mark.slow
def test_every_bit_of_a_report_counts() -> None:
    require_every_flip_refused(tuple(1 << bit for bit in range(8)))


def test_a_firmware_id_other_than_the_certificates() -> None:
    device = MadeDevice(leaf={"extensions": (DIGITAL_SIGNATURE, composite(b"\1" * 48))})
    with pytest.raises(BindingError) as refusal:
        verify(device.evidence())
    assert (refusal.value.code, refusal.value.expected) == ("gpu-fwid-mismatch", "01" * 48)
    assert failed(refusal.value) == {"nvidia.fwid"}


def test_a_report_without_a_firmware_id_says_so_and_passes() -> None:
    entries = tuple(entry for entry in made.GPU_ENTRIES if entry[0] != 20)
    verified = verify(MadeDevice(entries=made.opaque(entries)).evidence())
    assert verified.fwid_matched is None
    assert told(verified, "nvidia.fwid") == (Outcome.NOT_EVALUATED, "the report states no firmware id")


def test_a_leaf_made_by_another_device() -> None:
    device = MadeDevice(leaf={"extensions": (DIGITAL_SIGNATURE, composite(key=STRANGER_KEY))})
    with pytest.raises(BindingError) as refusal:
        verify(device.evidence())
    assert refusal.value.code == "gpu-leaf-binding-mismatch"
    assert failed(refusal.value) == {"nvidia.leaf_binding"}


@pytest.mark.parametrize("stated", ["BLACKWELL", "LS10", "HOPPER2", "H"])
def test_a_stated_architecture_other_than_the_certificates(stated: str) -> None:
    with pytest.raises(BindingError) as refusal:
        verify(MadeDevice().evidence(arch=stated))
    assert (refusal.value.code, refusal.value.exit_code) == ("gpu-arch-mismatch", 4)
    assert failed(refusal.value) == {"nvidia.arch"}


def test_a_stated_architecture_may_be_written_in_either_case() -> None:
    verify(MadeDevice().evidence(arch="Hopper"))
    verify(BLACKWELL.evidence(arch="BLACKWELL"))
    verify(SWITCH.evidence(arch="LS10"))


def test_a_stated_nonce_other_than_the_reports() -> None:
    verify(MadeDevice().evidence(stated_nonce=made.NONCE))
    with pytest.raises(BindingError) as refusal:
        verify(MadeDevice().evidence(stated_nonce=bytes(32)))
    assert (refusal.value.code, refusal.value.check) == ("gpu-stated-nonce-mismatch", "nvidia.stated_nonce")


def test_a_device_of_no_known_kind_under_nvidias_root_is_unsupported() -> None:
    subject = name("GR100 A01 GSP BROM", "41AABBCCDDEEFF0011")
    device = MadeDevice(device={"subject": subject}, leaf={"issuer": subject})
    with pytest.raises(UnsupportedError) as refusal:
        verify(replace(device, key=STRANGER_KEY).evidence())
    assert (refusal.value.code, refusal.value.exit_code) == ("gpu-device-unsupported", 3)
    assert failed(refusal.value) == {"nvidia.arch", "nvidia.signature"}
    assert told(refusal.value, "nvidia.vbios_rim") == (Outcome.NOT_EVALUATED, "the device is not known")


def test_a_device_of_no_known_kind_under_no_pinned_root_is_a_forgery() -> None:
    subject = name("GR100 A01 GSP BROM", "41AABBCCDDEEFF0011")
    device = MadeDevice(device={"subject": subject}, leaf={"issuer": subject})
    with pytest.raises(ChainError) as refusal:
        verify(device.evidence(), anchors=TrustAnchors.vendors())
    assert (refusal.value.code, refusal.value.exit_code) == ("root-not-trusted", 4)


@pytest.mark.parametrize(
    "device",
    [replace(SWITCH, entries=made.opaque(), count=64), replace(MadeDevice(), entries=made.opaque(made.SWITCH_ENTRIES))],
    ids=["a GPU's report, a switch's certificate", "a switch's report, a GPU's certificate"],
)
def test_a_report_of_another_kind_than_its_certificate(device: MadeDevice) -> None:
    with pytest.raises(BindingError) as refusal:
        verify(device.evidence())
    assert (refusal.value.code, refusal.value.exit_code) == ("gpu-kind-mismatch", 4)


# -- revocation of the device


@pytest.mark.parametrize("level", [1, 2, 3], ids=["L4", "L3", "L2"])
@pytest.mark.parametrize("reason", [Reason.KEY_COMPROMISE, Reason.HOLD])
def test_a_revoked_certificate_of_the_device_refuses_whatever_is_tolerated(level: int, reason: Reason) -> None:
    serial = parse_nvidia_device(GPU.device_item(NONCE)).chain[level].serial  # type: ignore[index]  # it has one
    pool = GPU.endorsements(at=AT, ocsp=SimulatedOcsp.of(AT, revoked={serial: reason}))
    for unchecked in ((), (NO_OCSP,)):
        error = refused(GPU, pool, *unchecked, tolerances=GpuTolerances(held_rim_signers="known"))
        assert isinstance(error, RevokedError)
        assert (error.code, error.check) == ("certificate-revoked", "nvidia.revocation")


def test_without_answers_the_status_is_missing_unless_that_is_tolerated() -> None:
    pool = replace(POOL, ocsp=())
    error = refused(GPU, pool)
    assert isinstance(error, EndorsementError)
    assert (error.code, error.check, error.exit_code) == ("ocsp-missing", "nvidia.revocation", 5)
    checks = {"nvidia.revocation", "nvidia.driver_rim_revocation", "nvidia.vbios_rim_revocation"}
    assert failed(error) == checks
    verified = judge(GPU, pool, NO_OCSP)
    assert verified.unchecked == (NO_OCSP,)
    assert (verified.device_statuses, verified.driver_statuses, verified.vbios_statuses) == ((), (), ())
    assert {told(verified, check) for check in checks} == {(Outcome.NOT_EVALUATED, "unchecked: no responder here")}
    assert outcomes(verified)["nvidia.measurements"] is Outcome.PASS


def test_a_missing_answer_hides_no_revocation() -> None:
    serial = parse_nvidia_device(GPU.device_item(NONCE)).chain[3].serial  # type: ignore[index]  # it has one
    answers = GPU.endorsements(at=AT, ocsp=SimulatedOcsp.of(AT, revoked={serial: Reason.KEY_COMPROMISE})).ocsp
    pool = replace(POOL, ocsp=tuple(answer for answer in answers if answer.serial == serial))
    assert refused(GPU, pool, NO_OCSP).code == "certificate-revoked"


def test_the_source_of_a_status_is_shown() -> None:
    assert "good by OCSP of" in told(judge(GPU, POOL), "nvidia.revocation")[1]


def test_a_revocation_list_answers_too() -> None:
    device = MadeDevice()
    crl = parse_crl(made_der.crl(issuer=ROOT, signer=ROOT_KEY))
    with pytest.raises(EndorsementError) as refusal:
        verify(device.evidence(), Endorsements(crls=(crl,)), unchecked=(NO_RIMS,))
    assert refusal.value.code == "ocsp-missing"  # the list of the root says nothing about L4 and L3
    crls = (
        crl,
        parse_crl(made_der.crl(issuer=device.certificates()[3].subject, signer=L2_KEY)),
        parse_crl(made_der.crl(issuer=device.certificates()[2].subject, signer=L3_KEY)),
    )
    verified = verify(device.evidence(), Endorsements(crls=crls), unchecked=(NO_RIMS,))
    assert "not listed by CRL of" in told(verified, "nvidia.revocation")[1]


# -- RIMs


def test_a_missing_rim_is_missing_and_the_other_is_compared() -> None:
    for rims, missing in (((VBIOS,), "driver"), ((DRIVER,), "vbios")):
        error = refused(GPU, replace(POOL, rims=rims))
        assert (error.code, error.check, error.exit_code) == ("gpu-rim-missing", f"nvidia.{missing}_rim", 5)
        assert error.retryable
        assert outcomes(error)["nvidia.measurements"] is Outcome.PASS
        verified = judge(GPU, replace(POOL, rims=rims), NO_RIMS)
        assert verified.unchecked == (NO_RIMS,)
        assert getattr(verified, f"{missing}_rim") is None
        assert told(verified, f"nvidia.{missing}_rim") == (Outcome.NOT_EVALUATED, "unchecked: no RIMs here")


def test_without_any_rim_nothing_is_compared() -> None:
    pool = replace(POOL, rims=())
    error = refused(GPU, pool)
    assert failed(error) == {"nvidia.driver_rim", "nvidia.vbios_rim"}
    assert told(error, "nvidia.measurements")[1] == "there is no RIM to compare with"
    verified = judge(GPU, pool, NO_RIMS)
    assert verified.measurements is None
    assert told(verified, "nvidia.measurements") == (Outcome.NOT_EVALUATED, "unchecked: no RIMs here")


def test_a_mismatch_outranks_a_missing_rim_and_no_relaxation_tolerates_it() -> None:
    device = SimulatedGpu.of(changed={9: b"\xee" * 48, 7: b"\xdd" * 48, 52: b"\xcc" * 48})
    pool = device.endorsements(at=AT)
    for rims in (rims_of(pool), rims_of(pool)[1:]):
        for unchecked in ((), (NO_RIMS, NO_OCSP)):
            error = refused(device, replace(pool, rims=rims), *unchecked)
            assert (error.code, error.check, error.exit_code) == (
                "gpu-measurement-mismatch",
                "nvidia.measurements",
                4,
            )
    whole = refused(device, pool)
    assert whole.field == "measurements[7]"
    assert "so do 9" in whole.message
    assert "ee" * 48 in there(whole.got)
    assert "developer tools" in there(whole.hint)
    assert "9 (vbios)" in there(whole.expected)


def test_a_mismatch_is_refused_with_what_to_do() -> None:
    device = SimulatedGpu.of(changed={22: b"\xee" * 48})
    error = refused(device, device.endorsements(at=AT))
    assert "measurement 22 differs from the driver RIM" in error.message
    assert "so do" not in error.message
    hint = there(error.hint)
    assert "fetch the current issue of the driver's RIM" in hint
    assert "waived_measurements" in hint
    assert "is valid for" not in hint
    firmware = SimulatedGpu.of(changed={2: b"\xee" * 48})
    hint = there(refused(firmware, firmware.endorsements(at=AT)).hint)
    assert "RIM of the VBIOS or BIOS" in hint
    assert "driver's RIM" not in hint


def mixed_versions() -> tuple[SimulatedGpu, RimTemplate]:
    """A GPU whose measurement 22 is that of another driver, and this driver's RIM."""
    other = SimulatedGpu.of(driver="590.12")
    return SimulatedGpu.of(changed={22: other.measurements[22]}), other.rims(at=AT)[0]


def test_a_mismatch_names_the_versions_for_which_its_value_is_good() -> None:
    device, other = mixed_versions()
    pool = device.endorsements(at=AT)
    known = "the value of 22 is valid for GH100 590.12"
    for rims in ((*rims_of(pool), other.document()), (other.document(), *rims_of(pool))):
        error = refused(device, replace(pool, rims=rims))
        assert error.code == "gpu-measurement-mismatch"
        assert known in there(error.hint)
    assert known not in there(refused(device, pool).hint)
    # A RIM that nobody signed, of another root or of another product says nothing.
    spoiled = other.document().xml.replace(b"Measurement_22", b"Measurement_2x", 1)
    unsigned = other.document().xml.replace(b"NVIDIA Corporation", b"NVIDIA corporation", 1)
    for xml in (spoiled, unsigned, b"<x/>", replace(other, product="GB100").issue()):
        assert known not in there(refused(device, replace(pool, rims=(*rims_of(pool), RimDocument(xml=xml)))).hint)
    # Beyond the bound nothing is searched; a pool is sorted by bytes, so that these come first.
    many = tuple(RimDocument(xml=b"<!-- %d --><x/>" % number) for number in range(MAX_OTHER_RIMS))
    assert known not in there(refused(device, replace(pool, rims=(*rims_of(pool), *many, other.document()))).hint)


def test_a_mismatch_names_the_component_where_the_rim_does(vectors_dir: Path) -> None:
    folder = vectors_dir / "nvidia" / "gh100-545.00"
    rim = read_rim(RimDocument(xml=(folder / "driver-rim.xml").read_bytes()))
    assert rim.names[36] == "HashedMeasurement_36_GSP"
    report = parse_report(made.recorded(vectors_dir, "gh100-545.00"))
    changed = tuple(b"\xee" * 48 if index in {30, 36} else value for index, value in enumerate(report.measurements))
    comparison = compare(changed, driver=rim, vbios=None, nvdec0=None)
    input_of_steps = Given(
        report=report,
        model=None,
        pool=NO_ENDORSEMENTS,
        anchors=TrustAnchors.vendors(),
        at=AT,
        unchecked=(),
        tolerances=GpuTolerances(),
    )
    with pytest.raises(VerificationError) as refusal:
        require_no_mismatch(comparison, input_of_steps)
    assert "so do 36 (HashedMeasurement_36_GSP)" in refusal.value.message
    assert "measurement 30 differs" in refusal.value.message
    assert "36 (driver, HashedMeasurement_36_GSP): " in there(refusal.value.expected)


def test_an_index_that_the_report_does_not_have_is_a_mismatch() -> None:
    parsed = parse_nvidia_device(GPU.device_item(NONCE))
    short = replace(parsed, report=replace(parsed.report, measurements=parsed.report.measurements[:40]))
    with pytest.raises(VerificationError) as refusal:
        verify_gpu_evidence(short, endorsements=POOL, anchors=SIMULATION, at=AT)
    assert "no such index" in there(refusal.value.got)


def test_waived_measurements_are_shown_and_do_not_match() -> None:
    device = SimulatedGpu.of(changed={7: b"\xee" * 48})
    waived = GpuTolerances(waived_measurements=(WaivedMeasurement(index=7, reason="developer tools"),))
    verified = judge(device, device.endorsements(at=AT), tolerances=waived)
    assert there(verified.measurements).matched == 32
    outcome, got = told(verified, "nvidia.measurements")
    assert outcome is Outcome.WARNING
    assert "7 (driver): developer tools" in got
    assert verified.tolerances == waived


def named(*values: str) -> GpuTolerances:
    return GpuTolerances(accepted_opaque=tuple(AcceptedValue(value=value, reason="reason") for value in values))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *((kind, value) for kind in (11, 21) for value in (b"", b"\x56", b"\0", b"\xff", b"\x55\0", b"\xaa\xaa")),
        *((36, value) for value in (b"", b"\1", b"\3\0", b"\0\1", b"\xff\xff", b"\2\0\0")),
    ],
)
def test_a_value_of_no_known_meaning_passes_only_where_its_exact_bytes_are_named(kind: int, value: bytes) -> None:
    device, name = extended_gpu({kind: value}), f"{kind}:{value.hex()}"
    for tolerances in (GpuTolerances(), *map(named, sorted(opaque_neighbours(kind, value)))):
        error = refused(device, tolerances=tolerances)
        assert (error.code, error.check, error.exit_code) == ("gpu-opaque-unsupported", "nvidia.format", 3)
        assert outcomes(error)["nvidia.format"] is Outcome.FAIL
    assert refused(device, tolerances=named(*opaque_neighbours(kind, value))).code == "gpu-opaque-unsupported"
    verified = judge(device, tolerances=named("36:0900", name))
    assert [one.value for one in verified.accepted] == [name]
    why = f"{name} (reason)"
    assert told(verified, "nvidia.format") == (
        Outcome.WARNING,
        f"64 measurements; opaque data types without a known meaning: none; not understood, and accepted: {why}",
    )


def test_every_value_of_no_known_meaning_has_to_be_named() -> None:
    device, both = extended_gpu({11: b"\x57", 36: b"\7\0"}), ("11:57", "36:0700")
    for one_of_them in both:
        assert refused(device, tolerances=named(one_of_them)).code == "gpu-opaque-unsupported"
    assert [one.value for one in judge(device, tolerances=named(*both)).accepted] == list(both)
    assert judge(tolerances=named(*both)).accepted == ()


def test_a_value_named_for_gpus_is_not_accepted_of_a_switch() -> None:
    """The kind of device follows from the certificate."""
    device = replace(SWITCH, entries=made.opaque(made.SWITCH_ENTRIES, t21=b"\x57"))
    accepted = named("21:57")
    for tolerances in (DeviceTolerances(), DeviceTolerances(gpus=accepted)):
        with pytest.raises(UnsupportedError):
            verify(device.evidence(), tolerances=tolerances)
    assert verify(device.evidence(), tolerances=DeviceTolerances(switches=accepted)).accepted


def test_naming_a_value_hides_nothing_else() -> None:
    """A status of protected PCIe beside a mode that is not understood contradicts it; RIMs and chains count on."""
    device = replace(extended_gpu({36: b"\3\0"}), changed={7: bytes(48)})
    assert refused(device, tolerances=named("36:0300")).code == "gpu-measurement-mismatch"
    with pytest.raises(ValueError, match="needs a reason"):
        AcceptedValue(value="36:0300", reason=" ")


def test_a_rim_altered_after_it_was_signed_is_said_to_be_so() -> None:
    value = there(judge().driver_rim).parsed.reference_values[22][0].hex().encode()
    altered = RimDocument(xml=DRIVER.xml.replace(value, b"00" + value[2:]))
    for unchecked in ((), (NO_RIMS,)):
        error = refused(GPU, replace(POOL, rims=(altered, VBIOS)), *unchecked)
        assert (error.code, error.check) == ("rim-signature-invalid", "nvidia.driver_rim_signature")
        assert failed(error) == {"nvidia.driver_rim_signature"}
        assert told(error, "nvidia.driver_rim_revocation")[1] == "its signature or its chain does not hold"
    judge(pool=replace(POOL, rims=(altered, VBIOS, DRIVER)))


def test_a_rim_whose_root_nobody_pinned() -> None:
    devices_only = TrustAnchors(anchors=SIMULATION.of_role("nvidia-device-root"))
    for unchecked in ((), (NO_RIMS, NO_OCSP)):
        error = refused(GPU, POOL, *unchecked, anchors=devices_only)
        assert isinstance(error, ChainError)
        assert (error.check, error.exit_code) == ("nvidia.driver_rim_chain", 4)
        assert failed(error) == {"nvidia.driver_rim_chain", "nvidia.vbios_rim_chain"}
        assert outcomes(error)["nvidia.measurements"] is Outcome.NOT_EVALUATED


@pytest.mark.parametrize("days", [-400, 900], ids=["before", "after"])
def test_a_rim_outside_its_window_is_a_stale_endorsement(days: int) -> None:
    at = AT + timedelta(days=days)
    pool = replace(GPU.endorsements(at=at), rims=POOL.rims)
    error = refused(GPU, pool, NO_OCSP, at=at)
    assert isinstance(error, EndorsementError)
    assert error.check == "nvidia.driver_rim_chain"
    assert failed(error) >= {"nvidia.driver_rim_chain", "nvidia.vbios_rim_chain"}
    assert outcomes(error)["nvidia.measurements"] is Outcome.PASS


def test_a_stale_rim_counts_as_missing_where_that_is_tolerated() -> None:
    at = AT + timedelta(days=900)
    now = GPU.endorsements(at=at)
    verified = judge(GPU, replace(now, rims=(DRIVER, VBIOS)), NO_OCSP, NO_RIMS, at=at)
    assert (verified.driver_rim, verified.vbios_rim, verified.measurements) == (None, None, None)
    assert told(verified, "nvidia.driver_rim_chain") == (Outcome.NOT_EVALUATED, "unchecked: no RIMs here")
    assert told(verified, "nvidia.measurements") == (Outcome.NOT_EVALUATED, "unchecked: no RIMs here")
    half = judge(GPU, replace(now, rims=(DRIVER, rims_of(now)[1])), NO_OCSP, NO_RIMS, at=at)
    assert (half.driver_rim, there(half.vbios_rim).parsed.document) == (None, rims_of(now)[1])
    assert {result.source for result in there(half.measurements).results} == {"vbios"}


def test_a_mismatch_with_a_stale_rim_is_a_finding_all_the_same() -> None:
    at = AT + timedelta(days=900)
    device = SimulatedGpu.of(changed={9: b"\xee" * 48})
    pool = replace(device.endorsements(at=at), rims=(DRIVER, VBIOS))
    assert refused(device, pool, NO_OCSP, NO_RIMS, at=at).code == "gpu-measurement-mismatch"


def test_without_answers_about_its_signers_a_rim_is_put_aside_where_rims_are_tolerated() -> None:
    signers = {c.serial for c in there(judge().driver_rim).signers}
    answers = tuple(answer for answer in POOL.ocsp if answer.serial not in signers)
    pool = replace(POOL, ocsp=answers)
    error = refused(GPU, pool)
    assert failed(error) == {"nvidia.driver_rim_revocation", "nvidia.vbios_rim_revocation"}
    verified = judge(GPU, pool, NO_RIMS)
    assert (verified.driver_rim, verified.measurements) == (None, None)
    assert told(verified, "nvidia.vbios_rim_revocation") == (Outcome.NOT_EVALUATED, "unchecked: no RIMs here")
    both = judge(GPU, pool, NO_RIMS, NO_OCSP)
    assert both.measurements is not None
    assert both.unchecked == (NO_OCSP,)


def held_signer() -> Endorsements:
    serial = there(judge().driver_rim).signers[0].serial
    return GPU.endorsements(at=AT, ocsp=SimulatedOcsp.of(AT, revoked={serial: Reason.HOLD}))


def test_a_held_rim_signer_refuses_unless_that_is_tolerated_by_name() -> None:
    pool = held_signer()
    for unchecked in ((), (NO_RIMS, NO_OCSP)):
        error = refused(GPU, pool, *unchecked)
        assert isinstance(error, RevokedError)
        assert error.check == "nvidia.driver_rim_revocation"
        assert told(error, "nvidia.measurements")[0] is Outcome.NOT_EVALUATED
    verified = judge(GPU, pool, tolerances=GpuTolerances(held_rim_signers="an outdated driver is known"))
    outcome, got = told(verified, "nvidia.driver_rim_revocation")
    assert outcome is Outcome.WARNING
    assert "an outdated driver is known" in got
    assert outcomes(verified)["nvidia.measurements"] is Outcome.PASS


def test_of_several_issues_one_good_one_without_a_mismatch_suffices() -> None:
    issue = firmware_rim(GPU.product, GPU.vbios, issued=signed_in(AT))
    changes = [dict.fromkeys(range(7), (bytes([fill]) * 48,)) for fill in range(8)]
    others = [replace(issue, values={**issue.values, **changed}).document() for changed in changes]
    pools = [replace(POOL, rims=(DRIVER, other, VBIOS)) for other in others]
    for pool in pools:
        assert there(judge(pool=pool).vbios_rim).parsed.document == VBIOS
    # A pool has its RIMs in the order of their digests.
    orders = {pool.rims.index(other) < pool.rims.index(VBIOS) for pool, other in zip(pools, others, strict=True)}
    assert orders == {True, False}
    other = others[0]
    assert refused(GPU, replace(POOL, rims=(DRIVER, other))).code == "gpu-measurement-mismatch"
    assert refused(GPU, replace(POOL, rims=(DRIVER, other, other))).code == "gpu-measurement-mismatch"


def test_a_current_issue_that_differs_is_not_excused_by_a_stale_one_that_does_not() -> None:
    at = AT + timedelta(days=900)
    issue = firmware_rim(GPU.product, GPU.vbios, issued=signed_in(at))
    other = replace(issue, values={**issue.values, 9: (b"\xab" * 48,)}).document()
    now = GPU.endorsements(at=at)
    for rims in ((rims_of(now)[0], VBIOS, other), (rims_of(now)[0], other, VBIOS)):
        error = refused(GPU, replace(now, rims=rims), NO_OCSP, at=at)
        assert (error.code, error.exit_code) == ("gpu-measurement-mismatch", 4)


def test_a_current_issue_suffices_beside_a_stale_one_where_revocation_is_left_unchecked() -> None:
    at = AT + timedelta(days=900)
    now = replace(GPU.endorsements(at=at), ocsp=())
    driver, current = rims_of(now)
    for rims in ((driver, VBIOS, current), (driver, current, VBIOS)):
        verified = judge(GPU, replace(now, rims=rims), NO_OCSP, at=at)
        assert there(verified.vbios_rim).parsed.document == current


def test_of_bad_issues_a_false_one_is_told_before_a_stale_one() -> None:
    at = AT + timedelta(days=900)
    altered = RimDocument(xml=VBIOS.xml.replace(b"NVIDIA Corporation", b"NVIDIA corporation", 1))
    now = GPU.endorsements(at=at)
    for rims in ((rims_of(now)[0], VBIOS, altered), (rims_of(now)[0], altered, VBIOS)):
        assert refused(GPU, replace(now, rims=rims), NO_OCSP, at=at).code == "rim-signature-invalid"


def test_two_rims_of_one_index_are_a_conflict() -> None:
    issue = driver_rim(GPU.product, GPU.driver, issued=signed_in(AT))
    measured = parse_nvidia_device(GPU.device_item(NONCE)).report.measurements
    both = replace(issue, values={**issue.values, 9: (measured[9],)}).document()
    error = refused(GPU, replace(POOL, rims=(both, VBIOS)))
    assert (error.code, error.check, error.got) == ("gpu-rim-conflict", "nvidia.rim_conflict", "9")
    assert failed(error) == {"nvidia.rim_conflict"}


def test_one_rim_for_driver_and_vbios_of_one_version_is_a_conflict() -> None:
    device = SimulatedGpu.of(driver=GPU.vbios)
    error = refused(device, replace(POOL, rims=(VBIOS,)))
    assert "nvidia.rim_conflict" in failed(error)
    assert error.exit_code == 4


def test_a_report_that_states_no_version_fits_no_rim() -> None:
    entries = tuple(entry for entry in made.GPU_ENTRIES if entry[0] not in (3, 6))
    verified = verify(MadeDevice(entries=made.opaque(entries)).evidence(), replace(POOL, certificates=()))
    assert (verified.driver_version, verified.vbios_version) == (None, None)
    assert (verified.driver_rim, verified.vbios_rim) == (None, None)
    assert "without a stated version" in next(c.expected for c in verified.checks if c.id == "nvidia.driver_rim")


def test_a_library_that_is_missing_hides_no_forgery(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(_: RimDocument) -> None:
        raise ConfigurationError("no lxml", code="rim-library-missing")

    monkeypatch.setattr("attest.evidence.gpu.references.read_rim", unavailable)
    assert refused(GPU, POOL).exit_code == 2
    parsed = parse_nvidia_device(GPU.device_item(NONCE))
    forged = replace(parsed, report=replace(parsed.report, signature_r=bytes(48)))
    with pytest.raises(SignatureError):
        verify_gpu_evidence(forged, endorsements=POOL, anchors=SIMULATION, at=AT)


# -- several failures, and what cannot run


def test_several_failures_are_all_told_and_the_gravest_speaks() -> None:
    device = MadeDevice(leaf={"extensions": (DIGITAL_SIGNATURE, composite(b"\1" * 48, key=STRANGER_KEY))})
    with pytest.raises(VerificationError) as refusal:
        verify(replace(device, key=STRANGER_KEY).evidence(arch="LS10", stated_nonce=bytes(32)), unchecked=())
    assert refusal.value.check == "nvidia.arch"  # the first of those with exit code 4
    assert failed(refusal.value) == {
        "nvidia.arch",
        "nvidia.stated_nonce",
        "nvidia.signature",
        "nvidia.fwid",
        "nvidia.leaf_binding",
        "nvidia.revocation",
        "nvidia.driver_rim",
        "nvidia.vbios_rim",
    }


def test_what_needs_something_that_is_not_there_is_not_evaluated() -> None:
    with pytest.raises(EndorsementError) as refusal:
        verify(MadeDevice().raw(), unchecked=())
    assert failed(refusal.value) == {"nvidia.chain"}
    assert set(outcomes(refusal.value).values()) == {Outcome.PASS, Outcome.FAIL, Outcome.NOT_EVALUATED}
    assert [c for c, outcome in outcomes(refusal.value).items() if outcome is Outcome.PASS] == ["nvidia.format"]


def test_a_forged_signature_is_told_though_the_chain_is_too_short() -> None:
    device = replace(MadeDevice(), key=STRANGER_KEY)
    with pytest.raises(VerificationError) as refusal:
        verify(device.evidence(chain=device.certificates()[:2]))
    assert failed(refusal.value) == {"nvidia.chain", "nvidia.signature"}


def test_every_failure_says_what_was_expected_what_was_found_and_where_that_is_written() -> None:
    device = SimulatedGpu.of(changed={9: b"\xee" * 48})
    error = refused(device, replace(device.endorsements(at=AT), ocsp=(), rims=(VBIOS,)))
    for check in error.checks:
        assert check.clause
        assert check.got
        assert check.expected or check.outcome is Outcome.NOT_EVALUATED
    assert error.clause


def test_steps_have_names_of_their_own() -> None:
    ids = [step.id for step in GpuSteps()]
    assert len(set(ids)) == len(ids)
    assert all(step.clause for step in GpuSteps())


def test_a_judged_rim_is_comparable_only_without_a_negative_finding() -> None:
    rim = judge().driver_rim
    base = JudgedRim(
        wanted=WantedRim(source="driver", edition="GPU", product="GH100", version="1"),
        parsed=there(rim).parsed,
        verified=rim,
        signature=None,
        chain=None,
        revocation=None,
        statuses=(),
    )
    stale, false = EndorsementError("", code="x-y"), ChainError("", code="x-y")
    assert base.comparable is rim
    assert replace(base, chain=stale, revocation=stale).comparable is rim
    assert replace(base, chain=stale, revocation=false).comparable is None
    assert [replace(base, revocation=stale).severity(revocation_tolerated=t) for t in (True, False)] == [0, 5]
    assert replace(base, revocation=false).severity(revocation_tolerated=True) == 4


@given(st.binary(max_size=400))
def test_any_certificates_in_the_pool_give_a_result_or_a_documented_refusal(value: bytes) -> None:
    other = MadeDevice(leaf={"extensions": (DIGITAL_SIGNATURE, replace(composite(), value=value))})
    pool = MadeDevice().pool().merged(other.pool())
    assert verify(MadeDevice().raw(), pool).nonce == made.NONCE
    with pytest.raises(AttestError):
        verify(MadeDevice(key=STRANGER_KEY).raw(), other.pool())


def test_simulated_signers_expire_so_that_stale_rims_can_be_tested() -> None:
    assert rim_signer_template(GPU.product, signed_in(AT)).not_after < AT + timedelta(days=900)


# -- recorded evidence


def cases(vectors_dir: Path) -> list[dict[str, Any]]:
    manifest = json.loads((vectors_dir / "nvidia" / "MANIFEST.json").read_text())
    return [case for case in manifest["cases"] if "report" in case["files"]]


def recorded(vectors_dir: Path, case: dict[str, Any]) -> tuple[bytes, Endorsements]:
    files = {role: (vectors_dir / "nvidia" / path).read_bytes() for role, path in case["files"].items()}
    chain = tuple(parse_certificate(der) for _, der in pem_blocks(files["chain"]))
    rims = tuple(RimDocument(xml=files[role]) for role in ("driver_rim", "vbios_rim") if role in files)
    return bytes.fromhex(files["report"].decode().strip()), Endorsements(certificates=chain, rims=rims)


def exit_code(parsed: ParsedGpuEvidence, pool: Endorsements, at: datetime) -> int:
    try:
        verify_gpu_evidence(parsed, endorsements=pool, anchors=TrustAnchors.vendors(), at=at, unchecked=(NO_OCSP,))
    except AttestError as exc:
        return exc.exit_code
    return 0


def test_recorded_cases_come_out_as_the_manifest_says(vectors_dir: Path) -> None:
    seen = 0
    for case in cases(vectors_dir):
        report, pool = recorded(vectors_dir, case)
        nonce_is_ours = bytes.fromhex(case["expected_nonce"]) == report[4:36]
        expected = case.get("exits", [0]) if nonce_is_ours else [0]  # the nonce is compared elsewhere
        at = datetime.fromisoformat(case["at"])
        if expected == [3]:
            with pytest.raises(EvidenceError):
                parse_nvidia_report(report)
            continue
        parsed = parse_nvidia_report(report)
        assert exit_code(parsed, pool, at) in expected, case["id"]
        chain = pem_blocks((vectors_dir / "nvidia" / case["files"]["chain"]).read_bytes())
        presented = replace(parsed, chain=tuple(parse_certificate(der) for _, der in chain))
        assert exit_code(presented, replace(pool, certificates=()), at) in expected, case["id"]
        seen += 1
    assert seen >= 17


def test_recorded_mismatches_are_those_of_the_manifest(vectors_dir: Path) -> None:
    for case in cases(vectors_dir):
        expected = case["expected"].get("vbios_mismatches") or case["expected"].get("mismatches")
        if not expected or case["id"] == "hopper-580-trailing-byte":
            continue
        report, pool = recorded(vectors_dir, case)
        with pytest.raises(VerificationError) as refusal:
            verify_gpu_evidence(
                parse_nvidia_report(report),
                endorsements=pool,
                anchors=TrustAnchors.vendors(),
                at=datetime.fromisoformat(case["at"]),
                unchecked=(NO_OCSP,),
            )
        assert refusal.value.code == "gpu-measurement-mismatch"
        assert [int(m.split()[0]) for m in there(refusal.value.expected).split("; ")] == expected


def test_a_report_with_its_trailing_byte_cut_off_fails_at_its_old_rim_only(vectors_dir: Path) -> None:
    case = next(case for case in cases(vectors_dir) if case["id"] == "hopper-580-trailing-byte")
    report, pool = recorded(vectors_dir, case)
    with pytest.raises(VerificationError) as refusal:
        verify_gpu_evidence(
            parse_nvidia_report(report[:-1]),
            endorsements=pool,
            anchors=TrustAnchors.vendors(),
            at=datetime.fromisoformat(case["at"]),
            unchecked=(NO_OCSP,),
        )
    assert failed(refusal.value) == {"nvidia.driver_rim", "nvidia.measurements"}
    assert "VBIOS RIM is an old issue" in there(refusal.value.hint)


def test_a_recorded_chain_begins_with_the_identity_ca_of_march_2022(vectors_dir: Path) -> None:
    case = next(case for case in cases(vectors_dir) if case["id"] == "hopper-545-complete-pass")
    report, pool = recorded(vectors_dir, case)
    begins = datetime(2022, 3, 1, tzinfo=UTC)
    parsed = parse_nvidia_report(report)
    no_rims = replace(pool, rims=())
    assert exit_code(parsed, no_rims, begins - timedelta(seconds=1)) == 4
    assert exit_code(parsed, no_rims, begins) == 5
    assert exit_code(parsed, pool, datetime(2024, 6, 1, tzinfo=UTC)) == 0


def test_nothing_is_left_unchecked_unless_somebody_says_so() -> None:
    assert {decision.check for decision in WITHOUT} == {"revocation", "rim"}
    with pytest.raises(EndorsementError):
        verify(MadeDevice().evidence(), NO_ENDORSEMENTS, anchors=held(), unchecked=())


@pytest.mark.parametrize("device", [GPU, SWITCHED], ids=["GPU", "switch"])
def test_what_is_let_pass_in_one_kind_is_not_let_pass_in_the_other(device: SimulatedGpu | SimulatedNvSwitch) -> None:
    changed = replace(device, changed={9: bytes(48)})
    waived = GpuTolerances(waived_measurements=(WaivedMeasurement(index=9, reason="known here"),))
    own, other = DeviceTolerances(gpus=waived), DeviceTolerances(switches=waived)
    if device is SWITCHED:
        own, other = other, own
    verify_with = partial(
        verify_gpu_evidence,
        parse_nvidia_device(changed.device_item(NONCE)),
        endorsements=changed.endorsements(at=AT),
        anchors=SIMULATION,
        at=AT,
    )
    assert told(verify_with(tolerances=own), "nvidia.measurements")[0] is Outcome.WARNING
    with pytest.raises(VerificationError) as refusal:
        verify_with(tolerances=other)
    assert refusal.value.code == "gpu-measurement-mismatch"
