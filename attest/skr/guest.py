"""Guests that an MAA-shaped Verifier appraises: this machine's report or quote over runtime data."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from attest.collect import THIS_MACHINE, MachineAccess, collect_machine
from attest.collect.detect import no_tee
from attest.errors import CollectionError, UnsupportedError
from attest.evidence.envelope import MEDIA_INTEL_QUOTE, MEDIA_SNP_EXTENDED, MEDIA_SNP_REPORT
from attest.evidence.snp.certificate_table import parse_certificate_table
from attest.evidence.snp.structure import REPORT_BYTES

_ORDER: Final = ("VCEK", "VLEK", "ASK", "ARK")
_LINE: Final = 64
SkrTee = Literal["snp", "tdx"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeEvidence:
    """Evidence whose report data begins with a digest.

    Attributes:
        report: SNP report or TDX quote.
        chain: SNP: certificates of the chip, PEM, leaf first; empty for TDX.
    """

    report: bytes
    chain: bytes = b""


class SkrGuest(Protocol):
    """A source of evidence."""

    @property
    def tee(self) -> SkrTee:
        """Its TEE."""

    def evidence(self, digest: bytes) -> RuntimeEvidence:
        """Return evidence whose report data is 32 bytes, and zeros after them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSkrGuest:
    """This machine. Make one with ``MachineSkrGuest.of``."""

    tee: SkrTee
    access: MachineAccess

    @staticmethod
    def of(access: MachineAccess = THIS_MACHINE) -> MachineSkrGuest:
        """Return this machine as a guest.

        Raises:
            CollectionError: ``tee-missing`` or ``tsm-missing``.
            UnsupportedError: ``skr-tee-unsupported``: a VM with a paravisor, whose agent is another program.
        """
        detected = access.detect()
        if detected.interface == "azure-vtpm":
            raise UnsupportedError(
                "a VM with a paravisor has no report of its own to send",
                code="skr-tee-unsupported",
                field="tee",
                expected="an SNP or TDX guest without a paravisor, such as a confidential container",
                got=detected.interface,
            )
        if detected.tee is None or detected.interface is None:
            raise no_tee(detected)
        return MachineSkrGuest(tee="snp" if detected.tee == "sev-snp" else "tdx", access=access)

    def evidence(self, digest: bytes) -> RuntimeEvidence:
        """Collect the evidence.

        Raises:
            CollectionError: ``skr-certificates-missing``: the host gave no certificates with the report; or see
                ``docs/errors.md``, "Collection".
        """
        found = collect_machine(digest, access=self.access, with_gpus=False, with_log=False)
        by_type = {item.essence: item.value for item in found.items}
        if self.tee == "tdx":
            return RuntimeEvidence(report=by_type[MEDIA_INTEL_QUOTE])
        extended = by_type.get(MEDIA_SNP_EXTENDED) or by_type[MEDIA_SNP_REPORT]
        return RuntimeEvidence(report=extended[:REPORT_BYTES], chain=_chain(extended[REPORT_BYTES:]))


def _chain(table: bytes) -> bytes:
    """Return the host's certificates, PEM, leaf first."""
    by_kind = {entry.kind: entry.data for entry in parse_certificate_table(table)}
    chain = b"".join(_pem(by_kind[kind]) for kind in _ORDER if kind in by_kind)
    if not chain:
        raise CollectionError(
            "the host gives no certificates with the report, which the Verifier needs",
            code="skr-certificates-missing",
            expected="a certificate table with the chip's certificate",
            got="an empty table",
            hint="the host's operator sets the table, with snphost or the hypervisor's own tool",
        )
    return chain


def _pem(der: bytes) -> bytes:
    text = b64encode(der)
    lines = b"\n".join(text[start : start + _LINE] for start in range(0, len(text), _LINE))
    return b"-----BEGIN CERTIFICATE-----\n" + lines + b"\n-----END CERTIFICATE-----\n"
