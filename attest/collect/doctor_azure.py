"""Readiness check of an Azure VM: its TPM, the paravisor's data in it, and its host's service.

The TPM is not written to and makes no quote. The host gets one request with a limit of two seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from attest.collect.access import MachineAccess
from attest.collect.azure import read_hcl_report, require_ak
from attest.collect.boot_log import TCG_LOG, collect_tcg_log
from attest.collect.findings import DoctorFinding, finding_of, may_use
from attest.collect.tpm import DEVICE_TCTI, Tpm
from attest.collect.tsm import is_there
from attest.errors import CollectionError, VerificationError
from attest.evidence.azure.structure import HclReportType, ParsedHclReport
from attest.evidence.eventlog.replay import verify_event_log

HOST_SECONDS = 2.0
_SECURITYFS = "mount -t securityfs none /sys/kernel/security; firmware or kernel may also keep no log"


def examine_azure(access: MachineAccess) -> Iterator[DoctorFinding]:
    """Check all prerequisites of collection through the TPM."""
    yield from _device(access.tpm_path)
    tpm: Tpm | None = None
    try:
        tpm = access.tpm()
    except CollectionError as exc:
        yield finding_of("tpm.binding", exc)
        yield from _unknown("tee", "azure.report", "azure.ak", "azure.host")
    else:
        yield DoctorFinding(id="tpm.binding", outcome="pass", found="tpm2-pytss and the TSS can be used")
        yield from _report(access, tpm)
    yield _tcg_log(access.root, tpm)


def _device(tcti: str) -> Iterator[DoctorFinding]:
    if not tcti.startswith(DEVICE_TCTI):
        yield DoctorFinding(id="interface", outcome="pass", found=f"the TPM through {tcti}")
        yield DoctorFinding(id="permissions", outcome="not evaluated", found="no device of this machine is used")
        return
    path = Path(tcti.removeprefix(DEVICE_TCTI))
    if is_there(path):
        yield DoctorFinding(id="interface", outcome="pass", found=f"the TPM at {path}")
        yield may_use(path, str(path))
        return
    yield DoctorFinding(
        id="interface",
        outcome="fail",
        found=f"there is no TPM at {path}",
        fix="modprobe tpm_crb, or tpm_tis; in a container, pass /dev/tpmrm0 through",
    )
    yield DoctorFinding(id="permissions", outcome="not evaluated", found="there is nothing to use")


def _report(access: MachineAccess, tpm: Tpm) -> Iterator[DoctorFinding]:
    try:
        hcl = read_hcl_report(tpm)
    except CollectionError as exc:
        yield finding_of("azure.report", exc)
        yield from _unknown("tee", "azure.ak", "azure.host")
        return
    yield DoctorFinding(id="tee", outcome="pass", found=f"azure-{hcl.report_type.name.lower()} guest below a paravisor")
    yield DoctorFinding(id="azure.report", outcome="pass", found=f"the paravisor's report, {len(hcl.raw)} bytes")
    try:
        require_ak(tpm, hcl)
    except CollectionError as exc:
        yield finding_of("azure.ak", exc)
    else:
        yield DoctorFinding(id="azure.ak", outcome="pass", found="the attestation key is the one in the report")
    yield _host(access, hcl)


def _host(access: MachineAccess, hcl: ParsedHclReport) -> DoctorFinding:
    """Check the host's service, the source of AMD's certificate or of TD quotes."""
    needed = hcl.report_type is HclReportType.TDX
    try:
        status = access.azure.answers(replace(access.patience, attempts=1, seconds=HOST_SECONDS))
    except CollectionError as exc:
        return finding_of("azure.host", exc, outcome="fail" if needed else "warning")
    if status == 200 or needed:  # the request is for AMD: elsewhere any answer proves the service
        return DoctorFinding(id="azure.host", outcome="pass", found=f"the host's service answers (status {status})")
    return DoctorFinding(
        id="azure.host",
        outcome="warning",
        found=f"the host's service has no certificate of its chip now (status {status}); verifiers ask AMD instead",
        fix="ask again in a minute; if it stays, evidence comes without the certificate",
    )


def _tcg_log(root: Path, tpm: Tpm | None) -> DoctorFinding:
    """Check the boot log: evidence works without it, but policies with rules for a log fail."""
    try:
        log = collect_tcg_log(root)
        if log is not None and tpm is not None:
            verify_event_log(log.parsed, signed={f"PCR{index}": value for index, value in enumerate(tpm.read_pcrs())})
    except (CollectionError, VerificationError) as exc:
        return finding_of("eventlog", exc, outcome="warning")
    if log is None:
        found = f"no log of the boot (/{TCG_LOG}), which explains the registers"
        return DoctorFinding(id="eventlog", outcome="warning", found=found, fix=_SECURITYFS)
    leads = ", which lead to the TPM's registers" if tpm is not None else ""
    return DoctorFinding(id="eventlog", outcome="pass", found=f"/{TCG_LOG}, {len(log.parsed.events)} events{leads}")


def _unknown(*names: str) -> Iterator[DoctorFinding]:
    for name in names:
        yield DoctorFinding(id=name, outcome="not evaluated", found="the paravisor's report could not be read")
