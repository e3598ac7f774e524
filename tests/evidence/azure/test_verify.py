"""A VM's evidence holds link by link, and each link that does not is refused by its own name."""

import json
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from attest.checks import Outcome, Unchecked
from attest.endorsements.pool import NO_ENDORSEMENTS, Endorsements
from attest.errors import AttestError
from attest.evidence.azure.claims import azure_claim
from attest.evidence.azure.structure import HclReportType
from attest.evidence.azure.verify import VerifiedAzureEvidence
from attest.evidence.binding import Binding, ExpectedBinding
from attest.evidence.envelope import MEDIA_BINDING, EvidenceItem
from attest.evidence.tpm.structure import SHA256, PcrSelection, bitmap_of
from attest.verification import ExpectedFreshness, Freshness
from tests.evidence.azure.made import NONCE, PCRS, AzureVm, item, judged, jwk, key, quote

SNP, TDX = AzureVm(), AzureVm(kind=HclReportType.TDX)
BOTH = pytest.mark.parametrize("vm", [SNP, TDX], ids=["snp", "tdx"])


def refusal(vm: AzureVm, **how: Any) -> AttestError:  # noqa: ANN401
    with pytest.raises(AttestError) as outcome:
        judged(vm, **how)
    return outcome.value


@BOTH
def test_an_honest_vm_is_verified(vm: AzureVm) -> None:
    verified = judged(vm)
    assert verified.items[0].kind == f"azure-{vm.kind.name.lower()}"
    assert verified.freshness is Freshness.MATCHED
    assert verified.simulated
    assert {check.outcome for check in verified.checks} == {Outcome.PASS}
    ids = {check.id for check in verified.checks}
    assert {"azure.format", "azure.runtime_data", "azure.tpm_signature", "azure.pcr_digest"} <= ids
    assert ("azure.vmpl" in ids, "azure.td_report" in ids) == (vm is SNP, vm is TDX)


@BOTH
def test_claims_are_those_of_the_registers_the_paravisor_and_the_cpu(vm: AzureVm) -> None:
    claims: Any = judged(vm).items[0].claims
    assert claims["pcrs"] == {str(index): value.hex() for index, value in enumerate(PCRS)}
    assert claims["vm_configuration"] == {
        "console_enabled": False, "secure_boot": True, "tpm_enabled": True, "vm_unique_id": "X",
    }  # fmt: skip
    assert claims["tpm"]["extra_data"] == NONCE.hex()
    assert claims["tpm"]["firmware_version"] == "2020031200120003"
    assert claims["user_data"] == "00" * 64
    inner = claims["snp" if vm is SNP else "tdx"]
    assert inner["report_data"] == vm.committed.hex()
    assert "unknown_claims" not in claims


def test_unknown_runtime_claims_are_kept_and_shown() -> None:
    vm = AzureVm(claims={"new": {"a": 1}, "vm-configuration": {"newer": True}})
    claims: Any = judged(vm).items[0].claims
    assert claims["unknown_claims"] == {"new": '{"a":1}', "vm-configuration.newer": "true"}


def test_a_quote_of_some_registers_speaks_of_these_alone() -> None:
    chosen = (0, 7, 11)
    values = tuple(PCRS[index] for index in chosen)
    some = quote(
        selections=(PcrSelection(algorithm=SHA256, bitmap=bitmap_of(chosen)),),
        pcr_digest=sha256(b"".join(values)).digest(),
    )
    verified = judged(AzureVm(tpm=some, pcrs=values))
    assert set(verified.items[0].claims["pcrs"]) == {"0", "7", "11"}  # type: ignore[arg-type]
    (one,) = verified.items
    assert azure_claim("pcrs.1").get(one.verified) is None
    assert azure_claim("pcrs.11").get(one.verified) == PCRS[11]
    assert refusal(AzureVm(tpm=some)).code == "tpm-pcr-count-mismatch"


@pytest.mark.parametrize("hash_type", [1, 2, 3])
def test_the_runtime_claims_may_be_hashed_with_any_known_hash(hash_type: int) -> None:
    judged(AzureVm(hash_type=hash_type))


WRONG: tuple[tuple[AzureVm, str, str, int], ...] = (
    (AzureVm(report_data=bytes(64)), "azure-runtime-data-mismatch", "azure.runtime_data", 4),
    (AzureVm(kind=TDX.kind, report_data=bytes(64)), "azure-runtime-data-mismatch", "azure.runtime_data", 4),
    (AzureVm(kind=TDX.kind, td_report_data=bytes(64)), "azure-runtime-data-mismatch", "azure.runtime_data", 4),
    (AzureVm(kind=TDX.kind, td_info=bytes(400)), "azure-td-report-mismatch", "azure.td_report", 4),
    (AzureVm(cpu={"vmpl": 1}), "azure-vmpl-unexpected", "azure.vmpl", 4),
    (AzureVm(signer="another"), "tpm-signature-invalid", "azure.tpm_signature", 4),
    (AzureVm(pcrs=(bytes(32), *PCRS[1:])), "tpm-pcr-digest-mismatch", "azure.pcr_digest", 4),
    (AzureVm(pcrs=PCRS[1:]), "tpm-pcr-count-mismatch", "azure.pcr_digest", 4),
    (AzureVm(tpm=quote(selections=())), "tpm-pcr-bank-unexpected", "azure.pcr_digest", 4),
    (AzureVm(tpm=quote(extra_data=b"other")), "nonce-mismatch", "freshness", 4),
    (AzureVm(runtime=b"{}"), "azure-claims-malformed", "azure.claims", 3),
    (AzureVm(runtime=b"no json"), "json-invalid", "azure.claims", 3),
)


@pytest.mark.parametrize(("vm", "code", "check", "exit_code"), WRONG, ids=lambda value: str(value)[:30])
def test_a_link_that_does_not_hold_is_refused_by_name(vm: AzureVm, code: str, check: str, exit_code: int) -> None:
    error = refusal(vm)
    assert (error.code, error.exit_code) == (code, exit_code)
    assert [c.id for c in error.checks if c.outcome is Outcome.FAIL] == [check]


def test_a_correctly_signed_message_that_is_no_quote_is_malformed() -> None:
    certify = replace(SNP, tpm=quote())
    message = bytearray(certify.tpm.to_bytes())
    message[5] = 0x17  # TPM_ST_ATTEST_CERTIFY
    error = refusal(SNP, data=with_message(SNP, bytes(message)), expected=None)
    assert (error.code, error.check) == ("tpm-attest-unsupported", "azure.tpm_quote")


def with_message(vm: AzureVm, message: bytes) -> bytes:
    """Evidence whose TPM signed another message."""
    from tests.evidence.azure.made import signed

    document = json.loads(vm.json)
    document["tpm_quote"] |= {"message": message.hex(), "signature": signed(message).hex()}
    return json.dumps(document).encode()


def test_a_message_that_cannot_be_read_has_no_nonce_either() -> None:
    error = refusal(SNP, data=with_message(SNP, b""))
    assert error.exit_code == 3
    assert "freshness" in [c.id for c in error.checks if c.outcome is Outcome.FAIL]


@BOTH
def test_a_missing_endorsement_is_missing_when_all_else_holds(vm: AzureVm) -> None:
    error = refusal(vm, endorsements=NO_ENDORSEMENTS)
    assert error.exit_code == 5
    assert [c.outcome for c in error.checks if c.id == "azure.pcr_digest"] == [Outcome.NOT_EVALUATED]


@BOTH
def test_false_evidence_is_called_false_although_an_endorsement_is_missing(vm: AzureVm) -> None:
    error = refusal(replace(vm, pcrs=(bytes(32), *PCRS[1:])), endorsements=NO_ENDORSEMENTS)
    assert error.code == "tpm-pcr-digest-mismatch"


def test_a_relaxation_is_handed_on_to_the_cpu_and_to_nothing_else() -> None:
    pool = Endorsements(certificates=SNP.endorsements.certificates)
    assert refusal(SNP, endorsements=pool).code == "crl-missing"
    why = (Unchecked(check="revocation", reason="a test"),)
    assert judged(SNP, endorsements=pool, unchecked=why).unchecked == why
    assert refusal(replace(SNP, pcrs=PCRS[::-1]), endorsements=pool, unchecked=why).exit_code == 4


# -- nonce, user data, binding

MINE = bytes(range(64))


def test_user_data_is_the_report_data_of_azure_and_no_freshness() -> None:
    vm = AzureVm(claims={"user-data": MINE.hex().upper()})
    told = judged(vm, expected=ExpectedFreshness(report_data=MINE))
    assert told.freshness is Freshness.NOT_EVALUATED
    assert judged(vm, expected=ExpectedFreshness(report_data=MINE, nonce=NONCE)).freshness is Freshness.MATCHED
    assert refusal(vm, expected=ExpectedFreshness(report_data=bytes(64), nonce=NONCE)).code == "report-data-mismatch"
    assert refusal(vm, expected=ExpectedFreshness(report_data=MINE, nonce=b"x")).code == "nonce-mismatch"


def test_claims_without_user_data_meet_no_expectation_of_it() -> None:
    claims = json.loads(SNP.runtime_data)
    del claims["user-data"]
    vm = AzureVm(runtime=json.dumps(claims).encode())
    assert "user_data" not in judged(vm).items[0].claims
    assert refusal(vm, expected=ExpectedFreshness(report_data=bytes(64), nonce=NONCE)).code == "report-data-mismatch"


def test_a_nonce_is_compared_whole_and_never_padded() -> None:
    padded = AzureVm(tpm=quote(extra_data=NONCE + bytes(4)))
    assert refusal(padded).code == "nonce-mismatch"
    assert judged(SNP, expected=None).freshness is Freshness.NOT_EVALUATED


def test_from_version_2_of_the_form_on_user_data_repeats_extra_data() -> None:
    repeated = AzureVm(version=2, claims={"user-data": NONCE.hex().ljust(128, "0")})
    verified = judged(repeated)
    assert "azure.user_data" in {check.id for check in verified.checks}
    assert refusal(AzureVm(version=2)).code == "azure-user-data-mismatch"
    claims = json.loads(SNP.runtime_data)
    del claims["user-data"]
    assert refusal(AzureVm(version=2, runtime=json.dumps(claims).encode())).code == "azure-user-data-mismatch"


BOUND = Binding(context="kms-release/v1", role="workload", audience="kms", nonce=NONCE, key=b"\0\x20" + bytes(32))
ASKED = ExpectedBinding(context="kms-release/v1", role="workload", audience="kms", nonce=NONCE)
BINDING = EvidenceItem(name="binding", media_type=MEDIA_BINDING, value=BOUND.to_bytes())


@BOTH
def test_a_binding_stands_in_user_data_and_in_extra_data(vm: AzureVm) -> None:
    claims = {"user-data": BOUND.report_data().hex()}
    bound = replace(vm, claims=claims, tpm=quote(extra_data=BOUND.extra_data()))
    assert judged(bound, BINDING, expected=ASKED).freshness is Freshness.MATCHED
    both = ExpectedFreshness(nonce=NONCE, report_data=BOUND.report_data())
    assert judged(bound, BINDING, expected=both).freshness is Freshness.MATCHED
    old_quote = replace(bound, tpm=quote(extra_data=b"of yesterday"))
    assert refusal_of(old_quote) == "binding-extra-data-mismatch"
    assert refusal_of(replace(bound, claims={})) == "binding-report-data-mismatch"


def refusal_of(vm: AzureVm) -> str:
    with pytest.raises(AttestError) as outcome:
        judged(vm, BINDING, expected=ASKED)
    return outcome.value.code


def test_the_extra_data_of_a_binding_fits_every_tpm() -> None:
    assert len(BOUND.extra_data()) == 48
    assert BOUND.report_data().startswith(BOUND.extra_data())


def test_the_procedure_returns_what_it_verified() -> None:
    (one,) = judged(SNP).items
    assert isinstance(one.verified, VerifiedAzureEvidence)
    assert one.verified.runtime.ak.public_numbers() == key().public_key().public_numbers()
    assert item(SNP.json).digest == item(SNP.json).digest
    assert jwk(key())["kid"] == "HCLAkPub"
