"""The SGX enclave report body: 384 bytes, little-endian (REPORTBODY; Intel SDM volume 3D, table 40-23).

Reserved spans are kept as they are and not judged: the report is signed whole, and Intel gives meaning to such bytes
from time to time (CET_ATTRIBUTES came that way).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from attest.evidence.reader import Field, Layout

ENCLAVE_REPORT_BYTES = 384

ATTRIBUTE_BITS: tuple[tuple[str, int], ...] = (
    ("init", 0),
    ("debug", 1),
    ("mode64bit", 2),
    ("provision_key", 4),
    ("einittoken_key", 5),
    ("cet", 6),
    ("kss", 7),
    ("aex_notify", 10),
)
"""Named bits of ATTRIBUTES.FLAGS. Others are kept and shown."""

ENCLAVE_REPORT = Layout(
    name="SGX enclave report",
    size=ENCLAVE_REPORT_BYTES,
    clause="Intel SDM 3D, REPORTBODY",
    fields=(
        Field(name="cpu_svn", offset=0, size=16, kind="bytes", note="as the processor counts, not as TCB info does"),
        Field(name="misc_select", offset=16, size=4, kind="u32"),
        Field(name="reserved1", offset=20, size=12, kind="bytes", note="not judged"),
        Field(name="isv_ext_prod_id", offset=32, size=16, kind="bytes"),
        Field(name="attributes", offset=48, size=16, kind="bytes", note="u64 flags, u64 XFRM"),
        Field(name="mr_enclave", offset=64, size=32, kind="bytes", note="SHA-256 of the enclave's build"),
        Field(name="reserved2", offset=96, size=32, kind="bytes", note="not judged"),
        Field(name="mr_signer", offset=128, size=32, kind="bytes", note="SHA-256 of the signer's modulus"),
        Field(name="reserved3", offset=160, size=32, kind="bytes", note="not judged"),
        Field(name="config_id", offset=192, size=64, kind="bytes"),
        Field(name="isv_prod_id", offset=256, size=2, kind="u16"),
        Field(name="isv_svn", offset=258, size=2, kind="u16"),
        Field(name="config_svn", offset=260, size=2, kind="u16"),
        Field(name="reserved4", offset=262, size=42, kind="bytes", note="not judged"),
        Field(name="isv_family_id", offset=304, size=16, kind="bytes"),
        Field(name="report_data", offset=320, size=64, kind="bytes", note="chosen by the enclave"),
    ),
)


@dataclass(frozen=True, slots=True)
class ParsedEnclaveReport:
    """An enclave report as presented: unverified until the signature over it is checked.

    Attributes:
        raw: the 384 bytes as received.
        attributes: ATTRIBUTES, 16 bytes; ``flags`` and ``xfrm`` are its halves as numbers.
    """

    raw: bytes
    cpu_svn: bytes
    misc_select: int
    reserved1: bytes
    isv_ext_prod_id: bytes
    attributes: bytes
    mr_enclave: bytes
    reserved2: bytes
    mr_signer: bytes
    reserved3: bytes
    config_id: bytes
    isv_prod_id: int
    isv_svn: int
    config_svn: int
    reserved4: bytes
    isv_family_id: bytes
    report_data: bytes

    @property
    def flags(self) -> int:
        """ATTRIBUTES.FLAGS, 64 bits; see ``ATTRIBUTE_BITS``."""
        return int.from_bytes(self.attributes[:8], "little")

    @property
    def xfrm(self) -> int:
        """ATTRIBUTES.XFRM, 64 bits."""
        return int.from_bytes(self.attributes[8:], "little")

    @property
    def debug(self) -> bool:
        """ATTRIBUTES.FLAGS bit 1: the host may read and write the enclave."""
        return bool(self.flags & 2)

    def to_bytes(self) -> bytes:
        """Encode again; equal to ``raw`` for everything that ``parse_enclave_report`` accepts."""
        return ENCLAVE_REPORT.encode({name: getattr(self, name) for name in ENCLAVE_REPORT.names})


def parse_enclave_report(data: bytes) -> ParsedEnclaveReport:
    """Read an enclave report.

    Args:
        data: exactly 384 bytes.

    Raises:
        EvidenceError: ``size-wrong``.

    Spec: Intel SDM volume 3D, REPORTBODY; specs/intel-tdx-sgx.md, section 3.
    """
    values = cast("tuple[Any, ...]", ENCLAVE_REPORT.decode(data))  # Any: the table fixes order and types
    return ParsedEnclaveReport(data, *values)
