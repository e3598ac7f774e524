"""The CPU's report or quote, through this kernel's interface. It is read once, so that it answers the request.

Nothing is verified here; that is for a remote verifier.
"""

from __future__ import annotations

from attest.collect.access import MachineAccess
from attest.collect.azure import asked_of_azure, collect_azure
from attest.collect.detect import CollectedCpu, Detected, no_tee
from attest.collect.ioctl import SEV_GUEST, TDX_GUEST, read_snp_report, read_td_report
from attest.collect.refusals import ignored, parsed, refused_by
from attest.collect.tsm import PROVIDERS, REPORT_DATA_BYTES, collect_tsm
from attest.errors import CollectionError, EvidenceError
from attest.evidence.binding import Binding
from attest.evidence.envelope import (
    MAX_ITEM_BYTES,
    MEDIA_INTEL_QUOTE,
    MEDIA_SNP_EXTENDED,
    MEDIA_SNP_REPORT,
    EvidenceItem,
)
from attest.evidence.intel.quote import parse_quote
from attest.evidence.snp.certificate_table import parse_certificate_table
from attest.evidence.snp.structure import parse_report

_REPORT_IT = "report it to the project with the kernel's release"


def collect_cpu(
    access: MachineAccess, detected: Detected, challenge: Binding | bytes, *, vmpl: int | None
) -> CollectedCpu:
    """Collect a report or quote: from configfs-tsm, else from a driver's device, on Azure from the TPM.

    Raises:
        CollectionError: see ``docs/errors.md``, "Collection".
    """
    if detected.interface == "azure-vtpm":
        return _by_azure(access, challenge, vmpl=vmpl)
    data = challenge.report_data() if isinstance(challenge, Binding) else challenge
    report_data = data.ljust(REPORT_DATA_BYTES, b"\0")
    if detected.interface == "configfs-tsm":
        try:
            return _by_tsm(access, report_data, vmpl=vmpl)
        except CollectionError as exc:
            if exc.code != "tsm-provider-missing":
                raise
            if detected.tee is None:
                raise no_tee(detected) from exc
            if detected.tee == "tdx" or not (access.root / SEV_GUEST).exists():
                raise
    if detected.tee == "tdx":
        return _by_tdx_guest(access, report_data)
    return _by_sev_guest(access, report_data, vmpl=vmpl if vmpl is not None else access.read().sev_vmpl or 0)


def _by_azure(access: MachineAccess, challenge: Binding | bytes, *, vmpl: int | None) -> CollectedCpu:
    if vmpl:
        raise CollectionError(
            f"the report of an Azure VM states VMPL 0, which is its paravisor's, and not {vmpl}",
            code="vmpl-refused",
            field="VMPL",
            expected="0",
            got=str(vmpl),
            hint="leave the VMPL out",
        )
    return collect_azure(
        access.tpm(),
        asked_of_azure(challenge),
        services=access.azure,
        patience=access.patience,
        monotonic=access.monotonic,
    )


def _by_tsm(access: MachineAccess, report_data: bytes, *, vmpl: int | None) -> CollectedCpu:
    found = collect_tsm(access.reports(access.root), report_data, random=access.random, sleep=access.sleep, vmpl=vmpl)
    if PROVIDERS[found.provider] == "tdx":
        return _tdx(found.outblob, report_data)
    return _snp(found.outblob, found.auxblob, report_data, vmpl=found.privlevel, interface="configfs-tsm")


def _by_sev_guest(access: MachineAccess, report_data: bytes, *, vmpl: int) -> CollectedCpu:
    try:
        with access.open_device(access.root / SEV_GUEST) as device:
            found = read_snp_report(device, report_data, vmpl=vmpl)
    except OSError as exc:
        raise refused_by("sev-guest", exc, step=f"/{SEV_GUEST}") from exc
    return _snp(found.report, found.certificates, report_data, vmpl=vmpl, interface="sev-guest")


def _by_tdx_guest(access: MachineAccess, report_data: bytes) -> CollectedCpu:
    """Refuse: the device gives TD reports, which no remote verifier can check."""
    try:
        with access.open_device(access.root / TDX_GUEST) as device:
            read_td_report(device, report_data)
    except OSError as exc:
        raise refused_by("tdx-guest", exc, step=f"/{TDX_GUEST}") from exc
    raise CollectionError(
        "/dev/tdx_guest gives a TD report, which only this very machine can check, and no quote",
        code="tdx-quote-unavailable",
        expected="a quote, signed by the machine's quoting enclave",
        got="a TD report",
        hint="Linux 6.7 or later gives quotes through configfs-tsm (modprobe tdx-guest, mount configfs); the host has "
        "to run a quote generation service for its guests",
    )


def _snp(report: bytes, table: bytes, report_data: bytes, *, vmpl: int | None, interface: str) -> CollectedCpu:
    """Return the item of a report; a table of the host that is of no use is left out, since it can be fetched."""
    stated = parsed(parse_report, report, "report that the kernel returned", hint=_REPORT_IT)
    _require_ours(stated.report_data, report_data)
    if vmpl is not None and stated.vmpl != vmpl:
        raise CollectionError(
            f"the report states VMPL {stated.vmpl}",
            code="vmpl-refused",
            field="VMPL",
            expected=str(vmpl),
            got=str(stated.vmpl),
            hint="ask again; if it stays, the kernel or the firmware does not do what it was asked",
        )
    kept, notes = _certificates(table, room=MAX_ITEM_BYTES - len(report))
    media = MEDIA_SNP_EXTENDED if kept else MEDIA_SNP_REPORT
    item = EvidenceItem(name="cpu", media_type=media, value=report + kept)
    return CollectedCpu(tee="sev-snp", interface=interface, item=item, notes=notes)


def _certificates(table: bytes, *, room: int) -> tuple[bytes, tuple[str, ...]]:
    """Return the host's table if it holds certificates and fits; an unreadable one is left out with a note."""
    try:
        return (table if parse_certificate_table(table) and len(table) <= room else b""), ()
    except EvidenceError as exc:
        return b"", (f"the host's certificates were left out: {exc.message}",)


def _tdx(quote: bytes, report_data: bytes) -> CollectedCpu:
    stated = parsed(parse_quote, quote, "quote that the kernel returned", hint=_REPORT_IT)
    _require_ours(stated.body.report_data, report_data)
    item = EvidenceItem(name="cpu", media_type=MEDIA_INTEL_QUOTE, value=quote)
    return CollectedCpu(tee="tdx", interface="configfs-tsm", item=item)


def _require_ours(got: bytes, wanted: bytes) -> None:
    """Refuse the answer of a driver that ignores its input, or repeats itself."""
    if got != wanted:  # no secret: both values are public
        raise ignored("the report", "REPORT_DATA", wanted, got, who="the kernel or the firmware")
