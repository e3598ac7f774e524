"""The SEV-SNP attestation report: 1,184 bytes, little-endian, as AMD 56860 draws it.

One table for each layout drives the parser, the encoder, ``attest inspect`` and the mutation tests.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from attest.errors import EvidenceError, UnsupportedError
from attest.evidence.reader import Field, Layout
from attest.evidence.snp.tcb import SnpProduct, product_of_cpuid, tcb_from_bytes

REPORT_BYTES = 0x4A0
SIGNED_BYTES = 0x2A0
"""The signature covers bytes 0x000 to 0x29F."""
VERSIONS = (2, 3, 4, 5)
"""Version 4 has the layout of 3."""

_CLAUSE = "AMD 56860, ATTESTATION_REPORT"
_CHECK = "snp.format"

GUEST_POLICY_BITS: tuple[tuple[str, int], ...] = (
    ("smt", 16),
    ("migrate_ma", 18),
    ("debug", 19),
    ("single_socket", 20),
    ("cxl_allow", 21),
    ("mem_aes_256_xts", 22),
    ("rapl_dis", 23),
    ("ciphertext_hiding_dram", 24),
    ("page_swap_disable", 25),
)
"""Named bits of POLICY. Bits 7:0 and 15:8 are the ABI version, bit 17 must be one, 63:26 must be zero."""
_POLICY_MUST_BE_ONE = 1 << 17
_POLICY_RESERVED = ((1 << 64) - 1) ^ ((1 << 26) - 1)

PLATFORM_INFO_BITS: tuple[tuple[str, int], ...] = (
    ("smt_en", 0),
    ("tsme_en", 1),
    ("ecc_en", 2),
    ("rapl_dis", 3),
    ("ciphertext_hiding_dram_en", 4),
    ("alias_check_complete", 5),
    ("tio_en", 7),
)
"""Named bits of PLATFORM_INFO. Others are kept and shown: real Turin machines set bit 6."""

_KEY_INFO_RESERVED = ((1 << 32) - 1) ^ 0x1F


_BEGINNING = (
    Field(name="version", offset=0x000, size=4, kind="u32"),
    Field(name="guest_svn", offset=0x004, size=4, kind="u32", note="from the ID block, else 0"),
    Field(name="policy", offset=0x008, size=8, kind="u64", note="guest policy"),
    Field(name="family_id", offset=0x010, size=16, kind="bytes", note="from the ID block"),
    Field(name="image_id", offset=0x020, size=16, kind="bytes", note="from the ID block"),
    Field(name="vmpl", offset=0x030, size=4, kind="u32", note="0 to 3; 0xFFFFFFFF: requested by the host"),
    Field(name="signature_algo", offset=0x034, size=4, kind="u32", note="1: ECDSA P-384 with SHA-384"),
    Field(name="current_tcb", offset=0x038, size=8, kind="bytes"),
    Field(name="platform_info", offset=0x040, size=8, kind="u64"),
    Field(name="key_info", offset=0x048, size=4, kind="u32"),
    Field(name="reserved", offset=0x04C, size=4, kind="reserved"),
    Field(name="report_data", offset=0x050, size=64, kind="bytes", note="chosen by the guest"),
    Field(name="measurement", offset=0x090, size=48, kind="bytes", note="launch digest, SHA-384"),
    Field(name="host_data", offset=0x0C0, size=32, kind="bytes", note="chosen by the host at launch"),
    Field(name="id_key_digest", offset=0x0E0, size=48, kind="bytes"),
    Field(name="author_key_digest", offset=0x110, size=48, kind="bytes"),
    Field(name="report_id", offset=0x140, size=32, kind="bytes"),
    Field(name="report_id_ma", offset=0x160, size=32, kind="bytes", note="all ones: no migration agent"),
    Field(name="reported_tcb", offset=0x180, size=8, kind="bytes", note="selects VCEK or VLEK"),
)
_NO_CPUID = (Field(name="reserved", offset=0x188, size=24, kind="reserved"),)
_CPUID = (
    Field(name="cpuid_fam_id", offset=0x188, size=1, kind="u8", note="combined family"),
    Field(name="cpuid_mod_id", offset=0x189, size=1, kind="u8", note="combined model"),
    Field(name="cpuid_step", offset=0x18A, size=1, kind="u8", note="stepping"),
    Field(name="reserved", offset=0x18B, size=21, kind="reserved"),
)
"""From version 3 on."""
_MIDDLE = (
    Field(name="chip_id", offset=0x1A0, size=64, kind="bytes", note="zero if masked; Turin: 8 bytes"),
    Field(name="committed_tcb", offset=0x1E0, size=8, kind="bytes"),
    Field(name="current_build", offset=0x1E8, size=1, kind="u8"),
    Field(name="current_minor", offset=0x1E9, size=1, kind="u8"),
    Field(name="current_major", offset=0x1EA, size=1, kind="u8"),
    Field(name="reserved", offset=0x1EB, size=1, kind="reserved"),
    Field(name="committed_build", offset=0x1EC, size=1, kind="u8"),
    Field(name="committed_minor", offset=0x1ED, size=1, kind="u8"),
    Field(name="committed_major", offset=0x1EE, size=1, kind="u8"),
    Field(name="reserved", offset=0x1EF, size=1, kind="reserved"),
    Field(name="launch_tcb", offset=0x1F0, size=8, kind="bytes"),
)
_NO_MITIGATIONS = (Field(name="reserved", offset=0x1F8, size=168, kind="reserved"),)
_MITIGATIONS = (
    Field(name="launch_mit_vector", offset=0x1F8, size=8, kind="u64", note="mitigations at launch"),
    Field(name="current_mit_vector", offset=0x200, size=8, kind="u64", note="mitigations now"),
    Field(name="reserved", offset=0x208, size=152, kind="reserved"),
)
"""From version 5 on."""
_END = (
    Field(name="signature_r", offset=0x2A0, size=72, kind="bytes", note="little-endian, 48 bytes used"),
    Field(name="signature_s", offset=0x2E8, size=72, kind="bytes", note="little-endian, 48 bytes used"),
    Field(name="reserved", offset=0x330, size=368, kind="reserved"),
)


def _layout(version: int) -> Layout:
    """Draw the table of one version."""
    cpuid = _CPUID if version >= 3 else _NO_CPUID
    mitigations = _MITIGATIONS if version >= 5 else _NO_MITIGATIONS
    fields = (*_BEGINNING, *cpuid, *_MIDDLE, *mitigations, *_END)
    return Layout(name="ATTESTATION_REPORT", size=REPORT_BYTES, clause=_CLAUSE, fields=fields)


_LAYOUTS = {2: _layout(2), 3: _layout(3), 4: _layout(3), 5: _layout(5)}


def layout_of_version(version: int) -> Layout:
    """Return the table of a report version, one of ``VERSIONS``."""
    return _LAYOUTS[version]


class ParsedSnpReport(NamedTuple):
    """An attestation report as presented: unverified until its signature is checked.

    Integers are decoded, TCBs stay 8 raw bytes (their layout depends on the product line), the rest is bytes.
    Fields that the version does not have are None.

    Attributes:
        raw: the report as received; signatures are checked over these bytes, never over a re-encoding.
        product: from CPUID in version 3 and later; None in version 2, which does not say.
    """

    raw: bytes
    product: SnpProduct | None
    version: int
    guest_svn: int
    policy: int
    family_id: bytes
    image_id: bytes
    vmpl: int
    signature_algo: int
    current_tcb: bytes
    platform_info: int
    key_info: int
    report_data: bytes
    measurement: bytes
    host_data: bytes
    id_key_digest: bytes
    author_key_digest: bytes
    report_id: bytes
    report_id_ma: bytes
    reported_tcb: bytes
    cpuid_fam_id: int | None
    cpuid_mod_id: int | None
    cpuid_step: int | None
    chip_id: bytes
    committed_tcb: bytes
    current_build: int
    current_minor: int
    current_major: int
    committed_build: int
    committed_minor: int
    committed_major: int
    launch_tcb: bytes
    launch_mit_vector: int | None
    current_mit_vector: int | None
    signature_r: bytes
    signature_s: bytes

    @property
    def signed_bytes(self) -> bytes:
        """Bytes 0x000 to 0x29F as received."""
        return self.raw[:SIGNED_BYTES]

    @property
    def author_key_en(self) -> bool:
        """KEY_INFO bit 0: AUTHOR_KEY_DIGEST means something."""
        return bool(self.key_info & 1)

    @property
    def mask_chip_key(self) -> bool:
        """KEY_INFO bit 1: the firmware did not sign this report."""
        return bool(self.key_info & 2)

    @property
    def signing_key(self) -> int:
        """KEY_INFO bits 4:2: 0 VCEK, 1 VLEK, 7 none, the rest reserved."""
        return self.key_info >> 2 & 7

    def to_bytes(self) -> bytes:
        """Encode again; equal to ``raw`` for everything that ``parse_report`` accepts."""
        layout = _LAYOUTS[self.version]
        return layout.encode({name: getattr(self, name) for name in layout.names})


def parse_report(data: bytes) -> ParsedSnpReport:
    """Read an attestation report.

    Args:
        data: exactly 1,184 bytes.

    Raises:
        EvidenceError: ``size-wrong``, ``reserved-not-zero`` or ``snp-field-malformed``.
        UnsupportedError: ``snp-version-unsupported``, ``snp-signature-algorithm-unsupported`` or
            ``snp-product-unknown``.

    Spec: AMD 56860, ATTESTATION_REPORT; specs/sev-snp.md, sections 2 to 6 and check S01.
    """
    # (1) Length and version: what comes after is read by the table of that version.
    if len(data) != REPORT_BYTES:
        raise EvidenceError(
            f"SEV-SNP report has {len(data)} bytes, expected {REPORT_BYTES}",
            code="size-wrong",
            check=_CHECK,
            expected=f"{REPORT_BYTES} bytes",
            got=f"{len(data)} bytes",
            clause=_CLAUSE,
        )
    layout = _LAYOUTS.get(int.from_bytes(data[:4], "little"))
    if layout is None:
        raise _unsupported(
            "VERSION", 0x000, "snp-version-unsupported", "2, 3, 4 or 5", int.from_bytes(data[:4], "little")
        )
    # (2) Reserved spans, and the values in the order of the table.
    values = layout.decode(data)
    report = _place(data, values)
    # (3) Fields with only one known meaning.
    _require_known(report)
    # (4) TCBs by the layout of the product line; version 2 waits for the certificate to name it.
    if report.product is not None:
        for name in ("current_tcb", "reported_tcb", "committed_tcb", "launch_tcb"):
            tcb_from_bytes(getattr(report, name), report.product, field=name.upper())
    return report


def _require_known(report: ParsedSnpReport) -> None:
    if report.signature_algo != 1:
        raise _unsupported(
            "SIGNATURE_ALGO", 0x034, "snp-signature-algorithm-unsupported", "1 (ECDSA P-384)", report.signature_algo
        )
    if report.policy & _POLICY_RESERVED or not report.policy & _POLICY_MUST_BE_ONE:
        raise _malformed("POLICY", 0x008, "bit 17 one and bits 63:26 zero", report.policy)
    if report.key_info & _KEY_INFO_RESERVED:
        raise _malformed("KEY_INFO", 0x048, "bits 31:5 zero", report.key_info)


_BEFORE_CPUID = 18
"""Fields in front of CPUID_FAM_ID, the same in all versions."""


def _place(data: bytes, values: tuple[Any, ...]) -> ParsedSnpReport:  # Any: the table fixes order and types
    """Put the values of any version into the one class; a version's absent fields become None."""
    version, product = values[0], None
    if version == 2:
        values = (*values[:_BEFORE_CPUID], None, None, None, *values[_BEFORE_CPUID:])
    else:
        product = product_of_cpuid(values[_BEFORE_CPUID], values[_BEFORE_CPUID + 1])
    if version != 5:
        values = (*values[:-2], None, None, *values[-2:])
    return ParsedSnpReport._make((data, product, *values))


def _unsupported(field: str, offset: int, code: str, expected: str, got: int) -> UnsupportedError:
    return UnsupportedError(
        f"{field} is {got}, expected {expected} (offset {offset:#05x})",
        code=code,
        check=_CHECK,
        field=field,
        offset=offset,
        expected=expected,
        got=str(got),
        clause=_CLAUSE,
    )


def _malformed(field: str, offset: int, expected: str, got: int) -> EvidenceError:
    return EvidenceError(
        f"{field} is {got:#x}, expected {expected} (offset {offset:#05x})",
        code="snp-field-malformed",
        check=_CHECK,
        field=field,
        offset=offset,
        expected=expected,
        got=f"{got:#x}",
        clause=_CLAUSE,
    )
