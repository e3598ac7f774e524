"""Published mistakes with the evidence of virtual TPMs, each built in full.

Verifiers have skipped the nonce when the caller's was empty; compared the PCR digest with itself, or hashed values
that the quote does not select; read PCRs of another bank; taken the attestation key from beside the evidence; used
fields of the SNP report before its signature was checked; not compared the runtime data with REPORT_DATA; believed
the launch measurement to be the guest system's. Spec: azure-cvm.md, sections 5, 10 and 11.
"""

import json
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from attest.checks import Outcome
from attest.endorsements.pool import NO_ENDORSEMENTS
from attest.errors import AttestError, EvidenceError
from attest.evidence.azure.structure import HclReportType
from attest.evidence.tpm.structure import SHA256, PcrSelection, bitmap_of
from attest.verification import ExpectedFreshness, Freshness
from tests.evidence.azure.made import ALL, NONCE, PCRS, AzureVm, judged, jwk, key, quote, signed

SNP, TDX = AzureVm(), AzureVm(kind=HclReportType.TDX)


def refusal(vm: AzureVm, **how: Any) -> AttestError:  # noqa: ANN401
    with pytest.raises(AttestError) as outcome:
        judged(vm, **how)
    return outcome.value


def changed(vm: AzureVm, **members: Any) -> bytes:  # noqa: ANN401
    """Evidence with members of its JSON changed."""
    return json.dumps(json.loads(vm.json) | members).encode()


# -- freshness


def test_an_empty_expected_nonce_is_a_mistake_of_the_caller_and_switches_nothing_off() -> None:
    with pytest.raises(ValueError, match="1 to 64 bytes"):
        ExpectedFreshness(nonce=b"")


def test_a_quote_without_a_nonce_answers_no_question() -> None:
    unasked = AzureVm(tpm=quote(extra_data=b""))
    assert refusal(unasked).code == "nonce-mismatch"
    assert judged(unasked, expected=None).freshness is Freshness.NOT_EVALUATED


def test_a_nonce_that_merely_begins_or_is_padded_alike_is_another() -> None:
    for nonce in (NONCE[:-1], NONCE + b"\0", bytes(32) + NONCE, NONCE.ljust(64, b"\0")):
        assert refusal(AzureVm(tpm=quote(extra_data=nonce))).code == "nonce-mismatch"


def test_the_nonce_in_user_data_does_not_make_an_old_quote_fresh() -> None:
    old = AzureVm(claims={"user-data": NONCE.hex().ljust(128, "0")}, tpm=quote(extra_data=b"yesterday"))
    assert refusal(old).code == "nonce-mismatch"
    asked = ExpectedFreshness(report_data=NONCE.ljust(64, b"\0"))
    assert judged(old, expected=asked).freshness is Freshness.NOT_EVALUATED


# -- registers


def test_the_digest_is_computed_anew_from_the_values_that_are_shown() -> None:
    lied = (sha256(b"what the policy wants").digest(), *PCRS[1:])
    assert refusal(AzureVm(pcrs=lied)).code == "tpm-pcr-digest-mismatch"


def test_values_that_the_quote_does_not_select_are_signed_by_nobody() -> None:
    # All 24 values are hashed and the digest fits, but the selection names only two registers.
    few = quote(selections=(PcrSelection(algorithm=SHA256, bitmap=bitmap_of((0, 1))),))
    assert refusal(AzureVm(tpm=few)).code == "tpm-pcr-count-mismatch"


@pytest.mark.parametrize("bank", [0x0004, 0x000C, 0x000D, 0x0012])
def test_a_quote_of_another_bank_is_refused_although_its_digest_fits(bank: int) -> None:
    other = quote(selections=(PcrSelection(algorithm=bank, bitmap=bitmap_of(ALL)),))
    assert refusal(AzureVm(tpm=other)).code == "tpm-pcr-bank-unexpected"


def test_registers_in_another_order_are_other_registers() -> None:
    swapped = (PCRS[1], PCRS[0], *PCRS[2:])
    assert refusal(AzureVm(pcrs=swapped)).code == "tpm-pcr-digest-mismatch"


# -- the key


def test_runtime_claims_that_nothing_commits_to_bring_no_key() -> None:
    # The attacker's key in otherwise true claims, and a quote by that key: REPORT_DATA is of the true claims.
    claims = {"keys": [jwk(key("attacker"))]}
    forged = AzureVm(claims=claims, report_data=SNP.committed, signer="attacker")
    assert refusal(forged).code == "azure-runtime-data-mismatch"
    forged = AzureVm(kind=TDX.kind, claims=claims, report_data=TDX.committed, signer="attacker")
    assert refusal(forged).code == "azure-runtime-data-mismatch"


def test_a_tdreport_that_commits_to_the_attackers_claims_does_not_help() -> None:
    # Nobody signs a TDREPORT: what counts is the quote.
    claims = {"keys": [jwk(key("attacker"))]}
    own = AzureVm(kind=TDX.kind, claims=claims)
    forged = replace(own, report_data=TDX.committed, td_report_data=own.committed, signer="attacker")
    assert refusal(forged).code == "azure-runtime-data-mismatch"


def test_a_key_beside_the_evidence_is_refused_and_not_used() -> None:
    for name in ("ak", "ak_pub", "akpub"):
        with pytest.raises(EvidenceError) as outcome:
            judged(SNP, data=changed(SNP, **{name: jwk(key("attacker"))}))
        assert outcome.value.code == "azure-form-malformed"


def test_the_other_key_of_the_claims_signs_nothing() -> None:
    assert refusal(AzureVm(signer="EK")).code == "tpm-signature-invalid"


def test_two_keys_of_the_attestation_keys_name_are_refused() -> None:
    two = AzureVm(claims={"keys": [jwk(key()), jwk(key("attacker"))]}, signer="attacker")
    assert refusal(two).code == "azure-claims-malformed"


# -- the CPU's report


@pytest.mark.parametrize("vm", [SNP, TDX], ids=["snp", "tdx"])
def test_nothing_counts_as_passed_when_the_cpu_did_not_sign_the_report(vm: AzureVm) -> None:
    """Claims, key and quote are the attacker's and fit together; only the report's signature is missing."""
    forged = replace(vm, claims={"keys": [jwk(key("attacker"))]}, signer="attacker")
    document = json.loads(forged.json)
    if vm is SNP:
        unsigned = replace(forged, cpu={"signature_r": bytes(72)})
        document = json.loads(unsigned.json)
    else:
        raw = bytearray(forged.td_quote or b"")
        raw[48 + 136] ^= 1
        from attest.encoding import base64url_text

        document["td_quote"] = base64url_text(bytes(raw))
    error = refusal(forged, data=json.dumps(document).encode())
    assert error.code in ("snp-signature-invalid", "quote-signature-invalid")
    passed = {c.id for c in error.checks if c.outcome is Outcome.PASS and c.id.startswith("azure.")}
    assert passed == {"azure.format"}


def test_a_report_that_no_endorsement_vouches_for_is_never_verified() -> None:
    for vm in (SNP, TDX):
        assert refusal(vm, endorsements=NO_ENDORSEMENTS).exit_code == 5


def test_a_report_from_a_guest_of_the_paravisor_is_refused() -> None:
    # Software at VMPL 1 to 3 may put into REPORT_DATA whatever it likes: claims with its own key.
    for level in (1, 2, 3):
        guest = AzureVm(cpu={"vmpl": level}, claims={"keys": [jwk(key("attacker"))]}, signer="attacker")
        assert refusal(guest).code == "azure-vmpl-unexpected"


def test_bytes_behind_the_digest_in_report_data_are_zero() -> None:
    tail = SNP.committed[:32] + b"\1" * 32
    assert refusal(AzureVm(report_data=tail)).code == "azure-runtime-data-mismatch"


def test_the_hash_is_over_exactly_the_stated_bytes() -> None:
    # Trailing zeros within the stated size are hashed, and those behind it are not.
    longer = AzureVm(runtime=SNP.runtime_data + b" ", report_data=SNP.committed)
    assert refusal(longer).code == "azure-runtime-data-mismatch"


# -- the message


def test_a_signed_message_that_is_no_quote_is_none() -> None:
    # A TPM signs certifications and audits too, and a restricted key signs nothing that begins with the magic.
    for offset, byte in ((0, 0x00), (5, 0x17), (5, 0x14)):
        message = bytearray(SNP.tpm.to_bytes())
        message[offset] = byte
        tpm = json.loads(SNP.json)["tpm_quote"]
        tpm |= {"message": bytes(message).hex(), "signature": signed(bytes(message)).hex()}
        assert refusal(SNP, data=changed(SNP, tpm_quote=tpm), expected=None).code == "tpm-attest-unsupported"


def test_a_quote_with_something_behind_it_is_malformed() -> None:
    message = SNP.tpm.to_bytes() + b"\0"
    tpm = json.loads(SNP.json)["tpm_quote"] | {"message": message.hex(), "signature": signed(message).hex()}
    assert refusal(SNP, data=changed(SNP, tpm_quote=tpm), expected=None).code == "trailing-bytes"


# -- snapshots


def test_a_restored_snapshot_shows_in_clock_and_counters() -> None:
    """A vTPM that was set back signs new nonces over old registers: the counters are claims, to be compared."""
    before: Any = judged(AzureVm(tpm=quote(clock=5_000_000, reset_count=7, restart_count=3))).items[0].claims
    after: Any = judged(AzureVm(tpm=quote(clock=1_000_000, reset_count=6, restart_count=3))).items[0].claims
    assert (after["tpm"]["clock"], after["tpm"]["reset_count"]) < (before["tpm"]["clock"], before["tpm"]["reset_count"])
    assert {"clock", "reset_count", "restart_count", "safe"} <= set(after["tpm"])
    assert judged(AzureVm(tpm=quote(safe=False))).items[0].claims["tpm"]["safe"] is False  # type: ignore[call-overload,index]


def test_the_measurement_is_the_paravisors_and_stands_under_the_cpu() -> None:
    # Whoever pins `measurement` of Azure evidence pins no system: there is no such claim at the top.
    for vm in (SNP, TDX):
        claims = judged(vm).items[0].claims
        assert not {"measurement", "mr_td", "report_data", "rtmr0"} & set(claims)
