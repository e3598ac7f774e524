"""Evidence as a whole: what holds the items together, and freshness."""

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from attest.checks import Outcome, Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.bundle import build_bundle
from attest.endorsements.bundle_records import BundleEntry
from attest.endorsements.pool import Endorsements
from attest.errors import AttestError, BindingError, EndorsementError, EvidenceError, SignatureError, UnsupportedError
from attest.evidence.binding import Binding, ExpectedBinding
from attest.evidence.device_format import FormatTable
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.envelope import (
    MEDIA_BINDING,
    MEDIA_ENDORSEMENTS,
    MEDIA_SNP_EXTENDED,
    MEDIA_SNP_REPORT,
    Evidence,
    EvidenceItem,
)
from attest.evidence.input_files import read_evidence
from attest.evidence.registry import FORMATS
from attest.verification import ExpectedFreshness, Freshness, VerifiedEvidence, verify
from attest_simulator.nvidia import SimulatedBoard
from tests.policy.drafts import CASES, FIXTURES, unchecked_of, verified_fixture
from tests.samples import AT, NO_CRL, NONCE, binding, bound_evidence, report_evidence, scene

HONEST = scene()


def run(
    evidence: Evidence,
    *,
    expected: ExpectedFreshness | ExpectedBinding | None = None,
    endorsements: Endorsements = HONEST.endorsements,
    unchecked: tuple[Unchecked, ...] = (),
    formats: FormatTable = FORMATS,
) -> VerifiedEvidence:
    """Verify under the simulator's anchors."""
    return verify(
        evidence,
        endorsements=endorsements,
        anchors=TrustAnchors.simulation(),
        at=AT,
        expected=expected,
        unchecked=unchecked,
        formats=formats,
    )


def pem(der: bytes) -> bytes:
    """A certificate as PEM."""
    return f"-----BEGIN CERTIFICATE-----\n{b64encode(der).decode()}\n-----END CERTIFICATE-----\n".encode()


def expected_binding(**changes: object) -> ExpectedBinding:
    """What a Relying Party expects of the usual binding."""
    usual = binding()
    facts: dict[str, object] = {
        "context": usual.context,
        "role": usual.role,
        "audience": usual.audience,
        "nonce": usual.nonce,
    }
    return ExpectedBinding(**(facts | changes))  # type: ignore[arg-type]


def test_freshness_is_not_evaluated_when_nothing_is_expected() -> None:
    verified = run(report_evidence(HONEST.report))
    assert verified.freshness is Freshness.NOT_EVALUATED
    assert verified.checks[0].outcome is Outcome.NOT_EVALUATED
    assert verified.simulated
    assert verified.items[0].claims["product"] == "Genoa"


@pytest.mark.parametrize("length", [1, 32, 63, 64])
def test_a_nonce_is_left_aligned_in_report_data_and_the_rest_is_zero(length: int) -> None:
    nonce = bytes(range(1, length + 1))
    report = HONEST.guest.report(nonce.ljust(64, b"\0"))
    assert run(report_evidence(report), expected=ExpectedFreshness(nonce=nonce)).freshness is Freshness.MATCHED


def test_a_nonce_followed_by_anything_but_zeros_is_another_nonce() -> None:
    """must-check 2: unused bytes must be zero."""
    report = HONEST.guest.report(NONCE + b"\x01".ljust(32, b"\0"))
    with pytest.raises(BindingError) as outcome:
        run(report_evidence(report), expected=ExpectedFreshness(nonce=NONCE))
    assert outcome.value.code == "nonce-mismatch"


def test_report_data_and_nonce_are_both_compared() -> None:
    data = NONCE.ljust(64, b"\0")
    evidence = report_evidence(HONEST.guest.report(data))
    assert run(evidence, expected=ExpectedFreshness(nonce=NONCE, report_data=data)).freshness is Freshness.MATCHED
    with pytest.raises(BindingError) as outcome:
        run(evidence, expected=ExpectedFreshness(nonce=NONCE, report_data=bytes(64)))
    assert outcome.value.code == "report-data-mismatch"
    with pytest.raises(BindingError) as outcome:
        run(evidence, expected=ExpectedFreshness(nonce=bytes(32), report_data=data))
    assert outcome.value.code == "nonce-mismatch"


@pytest.mark.parametrize(
    ("nonce", "report_data"), [(None, None), (b"", None), (bytes(65), None), (None, bytes(63)), (None, bytes(65))]
)
def test_an_expectation_that_cannot_be_met_is_a_programming_error(
    nonce: bytes | None, report_data: bytes | None
) -> None:
    with pytest.raises(ValueError, match=r"bytes|nonce"):
        ExpectedFreshness(nonce=nonce, report_data=report_data)


def test_a_moment_without_a_time_zone_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="time zone"):
        verify(
            report_evidence(HONEST.report),
            endorsements=HONEST.endorsements,
            anchors=TrustAnchors.simulation(),
            at=datetime(2026, 6, 1),  # noqa: DTZ001  the point of the test
        )


def test_bound_evidence_is_fresh_for_whom_it_was_made() -> None:
    verified = run(bound_evidence(HONEST.guest, binding()), expected=expected_binding())
    assert verified.freshness is Freshness.MATCHED
    assert verified.binding == binding()
    assert {c.id for c in verified.composite_checks} == {"binding.report_data", "binding.devices", "freshness"}


def test_with_a_binding_the_expected_nonce_is_the_bindings() -> None:
    evidence = bound_evidence(HONEST.guest, binding())
    assert run(evidence, expected=ExpectedFreshness(nonce=NONCE)).freshness is Freshness.MATCHED
    assert run(evidence, expected=ExpectedFreshness(report_data=binding().report_data())).freshness is Freshness.MATCHED
    with pytest.raises(BindingError):
        run(evidence, expected=ExpectedFreshness(nonce=bytes(32)))


def test_a_binding_without_an_expectation_is_still_compared_with_report_data() -> None:
    evidence = bound_evidence(HONEST.guest, binding())
    assert run(evidence).freshness is Freshness.NOT_EVALUATED
    swapped = tuple(
        replace(item, value=binding(nonce=bytes(32)).to_bytes()) if item.name == "binding" else item
        for item in evidence.items
    )
    with pytest.raises(BindingError) as outcome:
        run(replace(evidence, items=swapped))
    assert (outcome.value.code, outcome.value.check) == ("binding-report-data-mismatch", "binding.report_data")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"context": "channel/v1"}, "binding-context-mismatch"),
        ({"role": "service"}, "binding-role-mismatch"),
        ({"audience": "someone else"}, "binding-audience-mismatch"),
        ({"nonce": bytes(32)}, "nonce-mismatch"),
    ],
)
def test_a_proof_for_another_purpose_role_party_or_challenge_fails(changes: dict[str, object], code: str) -> None:
    """must-check 2; reflection and diversion of proofs."""
    with pytest.raises(BindingError) as outcome:
        run(bound_evidence(HONEST.guest, binding(**changes)), expected=expected_binding())
    assert (outcome.value.code, outcome.value.check) == (code, "freshness")


def test_a_relying_party_that_expects_a_binding_takes_nothing_less() -> None:
    with pytest.raises(BindingError) as outcome:
        run(report_evidence(binding().report_data()[:0] + HONEST.report), expected=expected_binding())
    assert outcome.value.code == "binding-missing"


GPU = EvidenceItem(name="gpu0", media_type="application/vnd.example.gpu", value=b"gpu evidence")


def test_the_binding_lists_every_device_and_no_other() -> None:
    listed = binding(devices=(GPU.digest,))
    verified = run(bound_evidence(HONEST.guest, listed, GPU), expected=expected_binding())
    assert verified.ignored == ("gpu0",)
    wrong: tuple[Evidence, ...] = (
        bound_evidence(HONEST.guest, listed),  # the GPU's evidence is missing
        bound_evidence(HONEST.guest, binding(), GPU),  # a GPU that nobody committed to
        bound_evidence(HONEST.guest, listed, replace(GPU, value=b"another")),
        bound_evidence(HONEST.guest, listed, replace(GPU, name="gpu1")),
        bound_evidence(HONEST.guest, binding(devices=(GPU.digest, GPU.digest)), GPU),
    )
    for evidence in wrong:
        with pytest.raises(BindingError) as outcome:
            run(evidence, expected=expected_binding())
        assert outcome.value.code == "binding-devices-mismatch"


def test_two_cpus_or_two_bindings_are_ambiguous() -> None:
    evidence = bound_evidence(HONEST.guest, binding())
    cpu, bound = evidence.items
    for extra in (replace(cpu, name="cpu1"), replace(bound, name="binding2")):
        with pytest.raises(EvidenceError) as outcome:
            run(replace(evidence, items=(*evidence.items, extra)))
        assert outcome.value.code == "evidence-ambiguous"


def test_evidence_without_a_known_device_is_unsupported() -> None:
    with pytest.raises(UnsupportedError) as outcome:
        run(Evidence(items=(GPU,)))
    assert outcome.value.code == "evidence-unsupported"


def test_endorsements_that_came_with_the_evidence_are_used() -> None:
    extended = HONEST.guest.extended_report(bytes(64))
    evidence = Evidence(items=(EvidenceItem(name="cpu", media_type=MEDIA_SNP_EXTENDED, value=extended),))
    assert run(evidence, endorsements=Endorsements(), unchecked=NO_CRL).simulated
    presented = replace(report_evidence(HONEST.report), presented=HONEST.endorsements)
    assert run(presented, endorsements=Endorsements()).simulated


def test_an_endorsements_item_is_read_as_a_bundle() -> None:
    leaf, intermediate, root = HONEST.guest.chip.certificates()
    entries = [
        BundleEntry(kind="amd-vcek", source="test", data=leaf),
        BundleEntry(kind="amd-chain", source="test", data=pem(intermediate) + pem(root)),
        BundleEntry(kind="amd-crl", source="test", data=HONEST.endorsements.crls[0].der),
    ]
    bundle = build_bundle(entries, created=AT, expires=AT + timedelta(days=1)).to_bytes()
    item = EvidenceItem(name="endorsements", media_type=MEDIA_ENDORSEMENTS, value=bundle, indicator=2)
    evidence = Evidence(items=(*report_evidence(HONEST.report).items, item))
    verified = run(evidence, endorsements=Endorsements())
    assert verified.simulated
    assert verified.ignored == ()


def test_one_refusal_does_not_hide_another_and_the_first_by_exit_code_speaks() -> None:
    forged = bytearray(HONEST.report)
    forged[0x90] ^= 1
    with pytest.raises(AttestError) as outcome:
        run(report_evidence(bytes(forged)), expected=ExpectedFreshness(nonce=NONCE))
    failed = {check.id for check in outcome.value.checks if check.outcome is Outcome.FAIL}
    assert failed == {"freshness", "snp.signature"}
    missing = Endorsements(certificates=HONEST.endorsements.certificates)
    with pytest.raises(BindingError):  # 4, although the CRL is missing too, which is 5
        run(report_evidence(HONEST.report), expected=ExpectedFreshness(nonce=NONCE), endorsements=missing)
    with pytest.raises(SignatureError):
        run(report_evidence(bytes(forged)), endorsements=missing)


def test_a_device_that_is_not_genuine_is_refused_beside_a_cpu_that_is() -> None:
    board = SimulatedBoard.of("refused", gpus=1, switches=0)
    bound = binding()
    items = board.items(bound.gpu_nonce())
    bound = replace(bound, devices=tuple(item.digest for item in items))
    with pytest.raises(EndorsementError) as outcome:  # nobody says anything about the GPU
        run(bound_evidence(HONEST.guest, bound, *items), expected=ExpectedFreshness(nonce=NONCE))
    told = {check.id: check.outcome for check in outcome.value.checks}
    assert told["snp.signature"] is Outcome.PASS
    assert told["binding.devices"] is Outcome.PASS


def test_a_refusal_of_the_whole_still_tells_how_the_device_came_out() -> None:
    with pytest.raises(BindingError) as outcome:
        run(report_evidence(HONEST.report), expected=ExpectedFreshness(nonce=NONCE))
    told = {check.id: check.outcome for check in outcome.value.checks}
    assert told["freshness"] is Outcome.FAIL
    assert told["snp.signature"] is Outcome.PASS


def test_the_digest_of_evidence_ignores_order_and_notices_everything_else() -> None:
    evidence = bound_evidence(HONEST.guest, binding())
    cpu, bound = evidence.items
    assert replace(evidence, items=(bound, cpu)).digest == evidence.digest
    for change in ({"name": "x"}, {"media_type": MEDIA_SNP_REPORT + "x"}, {"value": b"x"}):
        assert replace(evidence, items=(replace(cpu, **change), bound)).digest != evidence.digest


def test_a_binding_is_a_value() -> None:
    assert Binding(**{name: getattr(binding(), name) for name in Binding.__dataclass_fields__}) == binding()
    assert EvidenceItem(name="b", media_type=MEDIA_BINDING, value=b"").indicator == 4


@pytest.mark.parametrize("case", ["nvidia-board", "nvidia-switch"])
def test_devices_that_are_genuine_are_judged_together(case: str) -> None:
    together = {"device.unique", "device.nonce", "device.mode", "topology"}
    found = {check.id for check in verified_fixture(case).checks} & together
    assert found == (together if case == "nvidia-board" else {"topology"})


def test_genuine_devices_that_do_not_belong_together_are_refused() -> None:
    case = CASES["nvidia-switch"]
    at = datetime.fromisoformat(case["at"])
    files = [(name, (FIXTURES / name).read_bytes()) for name in case["endorsements"]]
    with pytest.raises(AttestError) as outcome:
        verify(
            read_evidence([("evidence.json", (FIXTURES / case["evidence"]).read_bytes())]).evidence,
            endorsements=read_endorsements(files, at=at).endorsements,
            anchors=TrustAnchors.simulation(),
            at=at,
            unchecked=unchecked_of([name for name in case["unchecked"] if name != "topology"]),
        )
    assert [check.id for check in outcome.value.checks if check.outcome is Outcome.FAIL] == ["topology"]


BOARD = SimulatedBoard.of("a protected board", mode="ppcie")
LONE = SimulatedBoard.of("two GPUs", gpus=2, switches=0)


def refused_set(items: Sequence[EvidenceItem], *names: str, board: SimulatedBoard = BOARD) -> AttestError:
    """Return the refusal of devices for which only these kinds of endorsements are at hand."""
    everything = board.endorsements(at=AT)
    given = Endorsements(**{name: getattr(everything, name) for name in names})
    with pytest.raises(AttestError) as outcome:
        run(Evidence(items=tuple(items)), endorsements=given)
    return outcome.value


def outcomes(error: AttestError) -> dict[str, Outcome]:
    return {check.id: check.outcome for check in error.checks}


@pytest.mark.parametrize("names", [("ocsp",), ("rims",), ()], ids=["no RIM", "no status", "neither"])
def test_what_is_missing_for_each_device_hides_no_repeated_and_no_missing_one(names: tuple[str, ...]) -> None:
    first, second = LONE.items(NONCE)
    assert refused_set((first, second), *names, board=LONE).exit_code == 5
    repeated = refused_set((first, replace(second, value=first.value)), *names, board=LONE)
    assert (repeated.code, repeated.exit_code) == ("gpu-device-repeated", 4)
    assert outcomes(repeated)["device.unique"] is Outcome.FAIL
    *others, _ = BOARD.items(NONCE)
    assert refused_set(others, *names).code == "gpu-topology-invalid"
    assert refused_set(BOARD.items(NONCE), *names).exit_code == 5


def test_a_device_that_is_not_genuine_may_be_the_one_that_is_missing() -> None:
    *others, last = BOARD.items(NONCE)
    document = json.loads(last.value)
    evidence = bytearray(b64decode(document["evidence"]))
    evidence[-1] ^= 1
    forged = replace(last, value=json.dumps({**document, "evidence": b64encode(evidence).decode()}).encode())
    error = refused_set((*others, forged), "rims", "ocsp")
    assert error.code == "gpu-signature-invalid"
    assert outcomes(error)["topology"] is Outcome.NOT_EVALUATED
    assert [check.got for check in error.checks if check.id == "topology"] == [
        f"unchecked: not evaluated, because signature or chain do not verify: {last.name}"
    ]


def test_devices_are_judged_together_also_when_the_challenge_was_another() -> None:
    first, second = LONE.items(NONCE)
    twice = Evidence(items=(first, replace(second, value=first.value)))
    with pytest.raises(BindingError) as outcome:
        run(twice, endorsements=LONE.endorsements(at=AT), expected=ExpectedFreshness(nonce=bytes(31) + b"\1"))
    told = outcomes(outcome.value)
    assert (told["freshness"], told["device.unique"]) == (Outcome.FAIL, Outcome.FAIL)


def test_a_format_that_authenticates_nothing_judges_verified_devices_alone() -> None:
    first, second = LONE.items(NONCE)
    rows = {name: replace(row, authenticate=None) for name, row in FORMATS.peripherals.items()}
    with pytest.raises(EndorsementError) as outcome:
        run(
            Evidence(items=(first, replace(second, value=first.value))),
            endorsements=Endorsements(),
            formats=replace(FORMATS, peripherals=rows),
        )
    assert "device.unique" not in outcomes(outcome.value)


@pytest.mark.parametrize("case", CASES)
def test_every_step_that_accepted_evidence_went_through_says_what_it_found(case: str) -> None:
    verified = verified_fixture(case)
    assert all(check.got for check in verified.checks)
    assert [check.id for check in verified.checks if "an earlier check failed" in check.got] == []
    unexplained = [check.id for check in verified.checks if check.outcome is Outcome.PASS and not check.expected]
    assert unexplained == []
