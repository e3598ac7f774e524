"""Azure VMs with the log of their boot, and demands on it that they meet."""

from hashlib import sha256
from typing import Any

from attest.checks import Unchecked
from attest.evidence.azure.structure import HclReportType
from attest.evidence.envelope import MEDIA_EVENT_LOG, EvidenceItem
from attest.evidence.tpm.structure import SHA256, PcrSelection, bitmap_of
from attest.verification import VerifiedEvidence
from attest_simulator.intel.eventlog import SHA256 as BANK
from attest_simulator.intel.eventlog import LogEntry
from attest_simulator.tpm_log import extended, replayed_pcrs, typical_tpm_boot, write_tpm_log
from tests.evidence.azure.made import ALL, AzureVm, judged, quote

LINE = "/vmlinuz root=/dev/sda1 ro"
GRUB, UKI = typical_tpm_boot(command_line=LINE), typical_tpm_boot(loader="stub", command_line=LINE)
NO_LOG = Unchecked(check="eventlog", reason="a test")


def digests(entries: tuple[LogEntry, ...], *indices: int, kind: int = 0xD) -> list[str]:
    """The digests of all events of one type in these registers."""
    return [one.event.digest_of(BANK).hex() for one in entries if one.index in indices and one.event.kind == kind]


_OPTIONS, _INITRD = digests(GRUB, 9, kind=6)
_LINUX = {"load_options": [_OPTIONS], "initrds": [_INITRD]}
BY_GRUB: dict[str, Any] = {
    "kernel_command_lines": [LINE],
    "grub_commands": [f"linux {LINE}"],
    **_LINUX,
    "other_loader_events": digests(GRUB, 9, 14),
}
BY_STUB: dict[str, Any] = {"kernel_command_lines": [LINE], **_LINUX, "other_loader_events": digests(UKI, 11)}


def vm_of(
    entries: tuple[LogEntry, ...] = GRUB,
    *,
    kind: HclReportType = HclReportType.SNP,
    selected: tuple[int, ...] = ALL,
    grown: tuple[int, ...] = (),
) -> AzureVm:
    """A VM whose TPM quotes some of the registers of a boot, of which some grew since."""
    values = list(replayed_pcrs(entries))
    for index in grown:
        values[index] = extended(values[index], sha256(b"later").digest())
    pcrs = tuple(values[index] for index in selected)
    made = quote(
        selections=(PcrSelection(algorithm=SHA256, bitmap=bitmap_of(selected)),),
        pcr_digest=sha256(b"".join(pcrs)).digest(),
    )
    return AzureVm(kind=kind, pcrs=pcrs, tpm=made)


def verified_boot(
    entries: tuple[LogEntry, ...] = GRUB,
    *,
    log: bytes | None = None,
    grown: tuple[int, ...] = (),
    kind: HclReportType = HclReportType.SNP,
    selected: tuple[int, ...] = ALL,
) -> VerifiedEvidence:
    """Verify such a VM with its log, or with another one; what grew is left unjudged."""
    item = EvidenceItem(name="eventlog", media_type=MEDIA_EVENT_LOG, value=log or write_tpm_log(entries))
    vm = vm_of(entries, kind=kind, selected=selected, grown=grown)
    return judged(vm, item, unchecked=(NO_LOG,) if grown else ())
