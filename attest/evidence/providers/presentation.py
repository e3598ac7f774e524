"""The parts of a machine's evidence that commit to others, read without being verified."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from attest.errors import UnsupportedError
from attest.evidence.device_format import FormatTable
from attest.evidence.envelope import Evidence
from attest.evidence.freshness import REPORT_DATA_BYTES
from attest.evidence.gpu.evidence import ParsedGpuEvidence
from attest.evidence.intel.quote import ParsedQuote
from attest.evidence.providers.document import PresentedMachine, StatedMachine


class _Cpu(NamedTuple):
    report_data: bytes
    signed: bytes
    machine: bytes


def present(machine: StatedMachine, formats: FormatTable) -> PresentedMachine:
    """Read the report data and the nonces of a machine.

    Raises:
        EvidenceError: a report or quote is malformed.
        ChainError: ``certificate-malformed``, the chain of a device cannot be read.
    """
    witness = None if machine.witness is None else _presented(machine.witness, formats, None)
    return _presented(machine.evidence, formats, witness)


def _presented(evidence: Evidence, formats: FormatTable, witness: PresentedMachine | None) -> PresentedMachine:
    cpu = _cpu(evidence, formats)
    nonces: list[tuple[str, bytes]] = []
    keys: list[tuple[str, bytes]] = []
    for item in evidence.items:
        peripheral = formats.peripherals.get(item.essence)
        if peripheral is not None:
            parsed = peripheral.parse(item.value)
            nonces.append((item.name, peripheral.nonce(parsed)))
            key = _device_key(parsed)
            if key is not None:
                keys.append((item.name, key))
    return PresentedMachine(
        report_data=cpu.report_data,
        cpu=cpu.signed,
        gpu_nonces=tuple(nonces),
        device_keys=tuple(keys),
        machine=cpu.machine,
        witness=witness,
    )


def _cpu(evidence: Evidence, formats: FormatTable) -> _Cpu:
    for item in evidence.items:
        media = formats.cpus.get(item.essence)
        if media is not None:
            parsed = media.parse(item.value)
            report_data = media.kind_of(parsed).report_data(parsed)
            if isinstance(parsed, ParsedQuote):
                return _Cpu(report_data, parsed.signed_bytes, _machine(parsed))
            return _Cpu(report_data, item.value, item.value)
    raise UnsupportedError(
        "no report or quote of this machine is of a kind that this version verifies",
        code="evidence-unsupported",
        expected=", ".join(formats.cpus),
        got=", ".join(item.media_type for item in evidence.items),
    )


def _machine(quote: ParsedQuote) -> bytes:
    return replace(quote.body, report_data=bytes(REPORT_DATA_BYTES)).to_bytes() + quote.attestation_key


def _device_key(parsed: ParsedGpuEvidence) -> bytes | None:
    """Return the key of the device's own certificate, the second of its chain; None for a chain without one."""
    chain = parsed.chain or ()
    return chain[1].spki_sha256 if len(chain) > 1 else None
