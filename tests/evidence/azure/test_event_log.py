"""The log of an Azure VM's boot is proven by the PCRs that its TPM quoted, and by nothing else."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import pytest

from attest.checks import Check, Outcome, Unchecked
from attest.endorsements.pool import NO_ENDORSEMENTS
from attest.errors import AttestError, BindingError, EvidenceError, SignatureError
from attest.evidence.azure.forms import parse_azure_evidence
from attest.evidence.azure.structure import HclReportType
from attest.evidence.envelope import MEDIA_EVENT_LOG, Evidence, EvidenceItem, parse_envelope
from attest.evidence.tpm.structure import PcrSelection, bitmap_of
from attest.verification import VerifiedEvidence
from attest_simulator.intel import SimulatedTd
from attest_simulator.intel.eventlog import SHA1, SHA384, LogEntry
from attest_simulator.tpm_log import extended, replayed_pcrs, typical_tpm_boot, write_tpm_log
from tests.evidence.azure.made import ALL, PLATFORM, AzureVm, item, judged, quote

GRUB, UKI = typical_tpm_boot(), typical_tpm_boot(loader="stub", command_line="ro quiet")
BOTH = (HclReportType.SNP, HclReportType.TDX)
TOLERATED = Unchecked(check="eventlog", reason="a phase of our own")


def booted(
    entries: tuple[LogEntry, ...] = GRUB,
    *,
    kind: HclReportType = HclReportType.SNP,
    changed: Mapping[int, bytes] | None = None,
    selected: tuple[int, ...] = ALL,
    **fields: Any,  # noqa: ANN401
) -> AzureVm:
    """A VM whose TPM quotes the registers of a boot, perhaps with changes, perhaps only some."""
    values = dict(enumerate(replayed_pcrs(entries))) | dict(changed or {})
    pcrs = tuple(values[index] for index in selected)
    made = quote(
        selections=(PcrSelection(algorithm=0x0B, bitmap=bitmap_of(selected)),),
        pcr_digest=sha256(b"".join(pcrs)).digest(),
    )
    return AzureVm(kind=kind, pcrs=pcrs, tpm=made, **fields)


def log_item(data: bytes) -> EvidenceItem:
    return EvidenceItem(name="eventlog", media_type=MEDIA_EVENT_LOG, value=data)


def verified(vm: AzureVm, entries: tuple[LogEntry, ...] = GRUB, **options: Any) -> VerifiedEvidence:  # noqa: ANN401
    return judged(vm, log_item(write_tpm_log(entries)), **options)


def the_check(checks: tuple[Check, ...]) -> Check:
    (found,) = (check for check in checks if check.id == "eventlog.replay")
    return found


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("entries", [GRUB, UKI])
def test_facts_of_a_log_that_replays_are_claims(kind: HclReportType, entries: tuple[LogEntry, ...]) -> None:
    found = verified(booted(entries, kind=kind), entries)
    check = the_check(found.checks)
    assert (check.outcome, check.got) == (Outcome.PASS, f"{len(entries)} events replay")
    claims: Any = found.items[0].claims["eventlog"]
    assert claims["secure_boot"]["enabled"] is True
    assert claims["kernel_command_lines"][0]["register"] == ("PCR8" if entries is GRUB else "PCR12")


@pytest.mark.parametrize("kind", BOTH)
def test_a_log_of_another_boot_is_refused(kind: HclReportType) -> None:
    with pytest.raises(BindingError) as caught:
        verified(booted(kind=kind), typical_tpm_boot(secure_boot=False))
    assert (caught.value.code, caught.value.field) == ("eventlog-register-mismatch", "PCR7")
    check = the_check(caught.value.checks)
    assert check.outcome is Outcome.FAIL
    assert check.expected == replayed_pcrs(GRUB)[7].hex()


@pytest.mark.parametrize("number", range(len(GRUB)))
def test_a_log_without_one_of_its_events_is_refused(number: int) -> None:
    with pytest.raises(BindingError, match=f"PCR{GRUB[number].index} is"):
        verified(booted(), (*GRUB[:number], *GRUB[number + 1 :]))


def test_only_registers_of_the_quote_are_compared() -> None:
    other = typical_tpm_boot(command_line="init=/bin/sh")
    found = verified(booted(selected=(*range(8), 14)), other)
    claims: Any = found.items[0].claims["eventlog"]
    assert claims["secure_boot"]["enabled"] is True
    for name in ("kernel_command_lines", "grub_commands", "initrds", "other_loader_events"):
        assert name not in claims


def test_a_quote_over_none_of_the_logs_registers_proves_nothing_of_it() -> None:
    with pytest.raises(BindingError) as caught:
        verified(booted(selected=(10, 16, 23)))
    assert caught.value.code == "eventlog-registers-unsigned"


def test_registers_of_the_running_system_are_not_in_the_log() -> None:
    late = {index: sha256(b"%d" % index).digest() for index in (10, 15, 16, 23)}
    assert the_check(verified(booted(changed=late)).checks).outcome is Outcome.PASS


def test_what_the_system_extended_since_refuses_unless_it_is_left_unjudged() -> None:
    vm = booted(UKI, changed={11: extended(replayed_pcrs(UKI)[11], sha256(b"mine").digest())})
    with pytest.raises(BindingError, match="PCR11 is"):
        verified(vm, UKI)
    found = verified(vm, UKI, unchecked=(TOLERATED,))
    check = the_check(found.checks)
    assert (check.outcome, check.expected) == (Outcome.NOT_EVALUATED, "unchecked: a phase of our own")
    assert check.got == f"{len(UKI)} events replay, but not to PCR11"
    claims: Any = found.items[0].claims["eventlog"]
    assert "other_loader_events" not in claims
    assert claims["kernel_command_lines"][0]["text"] == "ro quiet"


def test_what_is_negative_refuses_all_the_same() -> None:
    vm = booted(changed={7: bytes(32)})
    with pytest.raises(BindingError, match="PCR7 is"):
        verified(vm, unchecked=(TOLERATED,))
    lying = write_tpm_log(GRUB).replace(
        "SecureBoot".encode("utf-16-le") + b"\1", "SecureBoot".encode("utf-16-le") + b"\0"
    )
    with pytest.raises(AttestError) as caught:
        judged(booted(), log_item(lying), unchecked=(TOLERATED,))
    assert caught.value.code == "eventlog-data-mismatch"


def test_nothing_is_left_unjudged_that_replays() -> None:
    found = verified(booted(), unchecked=(TOLERATED,))
    assert the_check(found.checks).outcome is Outcome.PASS


@pytest.mark.parametrize(
    "data",
    [
        SimulatedTd(platform=PLATFORM).event_log(),
        write_tpm_log(GRUB, algorithms=(SHA1,)),
        write_tpm_log(GRUB, algorithms=(SHA384,)),
        b"",
    ],
)
def test_a_log_of_another_kind_or_bank_is_malformed(data: bytes) -> None:
    with pytest.raises(EvidenceError) as caught:
        judged(booted(), log_item(data))
    assert caught.value.code == "eventlog-malformed"


def test_what_is_wrong_with_the_quote_is_called_that() -> None:
    with pytest.raises(SignatureError):
        verified(booted(signer="another"))
    with pytest.raises(BindingError) as caught:
        verified(AzureVm(pcrs=booted().pcrs))
    assert caught.value.code == "tpm-pcr-digest-mismatch"


def test_a_log_that_is_refused_is_not_hidden_by_what_is_missing() -> None:
    with pytest.raises(BindingError) as caught:
        verified(booted(), UKI, endorsements=NO_ENDORSEMENTS)
    assert caught.value.code == "eventlog-register-mismatch"


def test_registers_are_stated_where_quote_and_values_agree() -> None:
    vm = booted(selected=(4, 7))
    values = replayed_pcrs(GRUB)
    assert parse_azure_evidence(vm.json).stated_pcrs == ((4, values[4]), (7, values[7]))
    assert parse_azure_evidence(AzureVm(pcrs=values).json).stated_pcrs == ()


def test_the_log_travels_in_the_envelope() -> None:
    evidence = Evidence(items=(item(booted().json), log_item(write_tpm_log(GRUB))))
    for document in (evidence.to_json(), evidence.to_cbor()):
        assert parse_envelope(document).items == evidence.items
