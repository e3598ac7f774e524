"""All evidence of this machine in one call: the CPU's, its boot's event log, and the GPUs'.

The GPUs come first, under a nonce derived from the challenge; then the CPU commits to their evidence. See
``attest.evidence.binding`` for why, and ``docs/collecting.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256

from attest.collect.access import THIS_MACHINE, MachineAccess
from attest.collect.boot_log import TCG_LOG, collect_event_log, collect_tcg_log
from attest.collect.cpu import collect_cpu
from attest.collect.detect import CollectedCpu, Tee, no_tee
from attest.collect.nvml import NVML_SECONDS, CollectedGpu
from attest.collect.tsm import REPORT_DATA_BYTES
from attest.errors import CollectionError, VerificationError
from attest.evidence.azure.forms import parse_azure_evidence
from attest.evidence.binding import NONCE_BYTES, Binding
from attest.evidence.envelope import (
    MEDIA_BINDING,
    MEDIA_EVENT_LOG,
    MEDIA_NVIDIA_DEVICE,
    Evidence,
    EvidenceItem,
)
from attest.evidence.eventlog.replay import verify_event_log


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """Collected evidence with its sources: the kind and the interface of the CPU, and the number of GPUs.

    Attributes:
        notes: omissions, for people.
    """

    evidence: Evidence
    tee: Tee
    interface: str
    gpus: int
    notes: tuple[str, ...]


def collect_machine(
    challenge: Binding | bytes,
    *,
    access: MachineAccess = THIS_MACHINE,
    vmpl: int | None = None,
    with_gpus: bool | None = None,
    with_log: bool = True,
    timeout: float = NVML_SECONDS,
) -> Evidence:
    """Collect all evidence of this machine. With a binding this is an ``Attester`` of ``attest.release.client``.

    Args:
        challenge: data to commit to: a binding, whose list of devices is filled in; or a nonce of 1 to 64
            bytes, left-aligned in REPORT_DATA and padded with zeros. With GPUs a nonce has 32 bytes and becomes
            the nonce of ``unasked_binding``. On Azure a nonce has at most 48 bytes; 64 are the whole user data.
        access: to the machine.
        vmpl: SNP: privilege level in the report, 0 to 3; None is the lowest that the kernel allows.
        with_gpus: True requires GPUs, False omits them, None includes them if NVIDIA's driver is loaded.
        with_log: include the event log if there is one.
        timeout: seconds for each query of NVIDIA's driver.

    Returns:
        the items ``cpu``, ``eventlog``, ``gpu0`` and so on, and ``binding``, as far as they apply.

    Raises:
        ValueError: an invalid nonce or VMPL, or with GPUs a nonce of another length than 32 bytes.
        CollectionError: see ``docs/errors.md``, "Collection".
    """
    return collect_all(
        challenge, access=access, vmpl=vmpl, with_gpus=with_gpus, with_log=with_log, timeout=timeout
    ).evidence


def collect_all(
    challenge: Binding | bytes,
    *,
    access: MachineAccess = THIS_MACHINE,
    vmpl: int | None = None,
    with_gpus: bool | None = None,
    with_log: bool = True,
    timeout: float = NVML_SECONDS,
) -> Collected:
    """Collect as ``collect_machine`` does, and return the sources too; arguments and errors are the same."""
    if isinstance(challenge, bytes) and not 0 < len(challenge) <= REPORT_DATA_BYTES:
        raise ValueError(f"a nonce has 1 to {REPORT_DATA_BYTES} bytes, not {len(challenge)}")
    # (1) The interface. Without a TEE there is no fallback: GPUs alone are for 'attest collect gpu'.
    detected = access.detect()
    if detected.interface is None:
        raise no_tee(detected)
    gpus_wanted = detected.gpus if with_gpus is None else with_gpus
    commitment = _commitment(challenge, gpus_wanted=gpus_wanted)
    gpus: tuple[EvidenceItem, ...] = ()
    bound: tuple[EvidenceItem, ...] = ()
    if isinstance(commitment, Binding):
        # (2) The GPUs, under a nonce unique to this challenge, and the binding, which names their evidence.
        if gpus_wanted:
            gpus = tuple(map(_gpu_item, access.collect_gpus(commitment.gpu_nonce(), timeout=timeout)))
        in_order = sorted(gpus, key=lambda item: item.name)
        commitment = replace(commitment, devices=tuple(item.digest for item in in_order))
        bound = (EvidenceItem(name="binding", media_type=MEDIA_BINDING, value=commitment.to_bytes()),)
    # (3) The CPU, which commits to the binding or nonce.
    cpu = collect_cpu(access, detected, commitment, vmpl=vmpl)
    # (4) The log, for the registers in the quote.
    log, notes = _log(access, cpu, with_log=with_log)
    return Collected(
        evidence=Evidence(items=(cpu.item, *log, *gpus, *bound, *cpu.beside)),
        tee=cpu.tee,
        interface=cpu.interface,
        gpus=len(gpus),
        notes=(*cpu.notes, *notes),
    )


def unasked_binding(nonce: bytes) -> Binding:
    """Return the binding that ties devices together if the verifier gave only a nonce, of 32 bytes.

    Its key does not exist: it serves for no release and no channel.
    """
    return Binding(
        context="collect/v1",
        role="machine",
        audience="whoever gave the nonce",
        nonce=nonce,
        key=sha256(b"attest collect, no key").digest(),
    )


def _commitment(challenge: Binding | bytes, *, gpus_wanted: bool) -> Binding | bytes:
    """Return the data for the CPU: with GPUs always a binding, the only tie between them."""
    if isinstance(challenge, Binding) or not gpus_wanted:
        return challenge
    if len(challenge) != NONCE_BYTES:
        raise ValueError(f"with GPUs a nonce has {NONCE_BYTES} bytes, not {len(challenge)}")
    return unasked_binding(challenge)


def _gpu_item(one: CollectedGpu) -> EvidenceItem:
    return EvidenceItem(name=f"gpu{one.index}", media_type=MEDIA_NVIDIA_DEVICE, value=one.item())


def _log(
    access: MachineAccess, cpu: CollectedCpu, *, with_log: bool
) -> tuple[tuple[EvidenceItem, ...], tuple[str, ...]]:
    """Return the log for a CPU with matching registers, and a note about a missing one."""
    if not with_log or cpu.tee == "sev-snp":
        return (), ()
    if cpu.tee == "tdx":
        log, note = collect_event_log(access.root), "this machine's firmware left no event log (CCEL)"
    else:
        log, note = _tcg_log(access, cpu)
    if log is None:
        return (), (note,)
    return (EvidenceItem(name="eventlog", media_type=MEDIA_EVENT_LOG, value=log),), ()


def _tcg_log(access: MachineAccess, cpu: CollectedCpu) -> tuple[bytes | None, str]:
    """Return the log of an Azure VM's boot, or the reason for its omission.

    A log that does not lead to the quoted registers is omitted: verifiers would refuse the evidence as a whole, also
    under policies without rules for a log. Since the file is unsigned, it can still be submitted separately.
    """
    registers = parse_azure_evidence(cpu.item.value).stated_pcrs
    try:
        found = collect_tcg_log(access.root)
        if found is None:
            return None, f"this machine has no log of its boot (/{TCG_LOG}), which would explain its registers"
        verify_event_log(found.parsed, signed={f"PCR{index}": value for index, value in registers})
    except CollectionError as exc:
        return None, f"the log of the boot is left out: {exc.message}"
    except VerificationError as exc:
        return None, f"the log of the boot (/{TCG_LOG}) is left out, as verifiers would refuse it: {exc.message}"
    return found.raw, ""
