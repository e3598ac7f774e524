"""SEV-SNP evidence as other projects write it, put back into the bytes that AMD signed.

====================  ==============================================================================================
Form                  What it is
====================  ==============================================================================================
go-sev-guest          protobuf ``sevsnp.Attestation``: the report field by field (``peer_protobuf.py``)
Trustee               JSON ``{"attestation_report": {…}, "cert_chain": [{"cert_type": …, "data": [bytes]}]}``: the
                      report as the ``sev`` crate's struct writes itself, in any of that struct's generations
Trustee, newer        the same with the report in base64
attestation-rs        JSON ``{"platform": "snp", "evidence": {"attestation_report": base64, "cert_chain": {"vcek":
                      base64, …}}}``, or the inner object alone
====================  ==============================================================================================

A report that was taken apart can only be put together again. The signature covers the bytes, so where the other side
lost some of them (a reserved byte that its struct has no member for, a TCB read by the wrong layout) the outcome is a
report whose signature does not verify: such a form can lose evidence, it can never improve it. For the same reason
every member of a report is demanded or refused here, and none is ignored.

Nothing is judged here. What comes out is a raw report and what a certificate table could hold, and everything after
that sees bytes only.

Spec: specs/sev-snp.md, section 18; specs/kbs-protocol.md, section 10.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from attest.encoding import JsonValue, base64_bytes, base64url_bytes
from attest.errors import UnsupportedError
from attest.evidence.envelope import MEDIA_SNP_EXTENDED, MEDIA_SNP_REPORT, EvidenceItem
from attest.evidence.json_form import JsonForm
from attest.evidence.snp.certificate_table import KINDS, MAX_TABLE_BYTES, TableEntry, encode_certificate_table
from attest.evidence.snp.structure import REPORT_BYTES, VERSIONS, layout_of_version
from attest.evidence.snp.tcb import SnpTcbVersion

PEER_FORM = JsonForm(code="peer-form-malformed", clause="docs/forms.md")
ATTESTATION_RS_PLATFORMS = ("snp", "gcp-snp")
"""Platforms of attestation-rs whose evidence is a bare SEV-SNP report."""
MAX_CERTIFICATES_BYTES = MAX_TABLE_BYTES // 2
"""A chain has some 5 KiB, and must fit in a certificate table."""

GUID_KINDS: Mapping[str, str] = {str(guid): kind for guid, kind in KINDS.items()}
"""Kind of certificate by its GUID in lower-case text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSnpEvidence:
    """A report put back into its bytes, and the certificates that came with it.

    Attributes:
        report: 1,184 bytes; not looked at beyond what putting them together took.
        entries: certificates and lists, each kind at most once.
    """

    form: str
    report: bytes
    entries: tuple[TableEntry, ...] = ()

    def to_item(self, *, name: str = "cpu") -> EvidenceItem:
        """Return the evidence item: an extended report, or a plain one when nothing came with it."""
        if not self.entries:
            return EvidenceItem(name=name, media_type=MEDIA_SNP_REPORT, value=self.report)
        table = encode_certificate_table(self.entries)
        return EvidenceItem(name=name, media_type=MEDIA_SNP_EXTENDED, value=self.report + table)


# -- putting a report together


class ReportBytes:
    """A report in the making: each byte is put in its place at most once, and no field may stay open.

    Args:
        version: the report's version, which decides what fields it must have; put it in its place like the others.
        path: place of the version, for messages.

    Raises:
        UnsupportedError: ``snp-version-unsupported``.
    """

    def __init__(self, version: int, *, path: str) -> None:
        if version not in VERSIONS:
            raise UnsupportedError(
                f"{path} is {version}, expected {', '.join(map(str, VERSIONS))}",
                code="snp-version-unsupported",
                field=path,
                expected="2, 3, 4 or 5",
                got=str(version),
            )
        self._version = version
        self._data = bytearray(REPORT_BYTES)
        self._filled = bytearray(REPORT_BYTES)

    def put(self, offset: int, value: bytes, *, path: str) -> None:
        """Put bytes in their place.

        Raises:
            EvidenceError: ``peer-form-malformed``, another member gave one of them before.
        """
        end = offset + len(value)
        if any(self._filled[offset:end]):
            raise PEER_FORM.malformed(
                path, "bytes of the report that no other member gives", "bytes that another member gives, too"
            )
        self._data[offset:end] = value
        self._filled[offset:end] = b"\1" * len(value)

    def finish(self, *, path: str) -> bytes:
        """Return the 1,184 bytes; missing reserved bytes are zero.

        Raises:
            EvidenceError: ``peer-form-malformed``, a field of this version is missing.
        """
        for field in layout_of_version(self._version):
            if field.kind != "reserved" and not all(self._filled[field.offset : field.offset + field.size]):
                raise PEER_FORM.malformed(f"{path}.{field.name}", "a value for this field of the report", "none")
        return bytes(self._data)


PLACES = {field.name: field for field in layout_of_version(5) if field.kind != "reserved"}
"""Version 5 has the fields of every version, each in the same place."""


# -- what all forms share


def base64_of_either_alphabet(text: str, *, what: str) -> bytes:
    """Decode base64 with padding, or base64url without; the text itself decides, and only one is tried.

    ``-``, ``_`` and a length that is no multiple of four occur in the latter only. Text that is both at once decodes
    to the same bytes either way.

    Raises:
        EvidenceError: ``base64-invalid``.
    """
    url = "-" in text or "_" in text or len(text) % 4 != 0
    return base64url_bytes(text, what=what) if url else base64_bytes(text, what=what)


def table_entries(found: list[TableEntry]) -> tuple[TableEntry, ...]:
    """Refuse what no certificate table could hold: two entries of a kind, or more than fits.

    Raises:
        EvidenceError: ``peer-form-malformed``.
    """
    kinds = [entry.kind for entry in found]
    if len(set(kinds)) != len(kinds):
        raise PEER_FORM.malformed("certificates", "each kind at most once", ", ".join(kinds))
    total = sum(len(entry.data) for entry in found)
    if total > MAX_CERTIFICATES_BYTES:
        raise PEER_FORM.malformed("certificates", f"at most {MAX_CERTIFICATES_BYTES} bytes", f"{total}")
    return tuple(found)


# -- Trustee and the inner object of attestation-rs

_TRUSTEE_MEMBERS = frozenset({"attestation_report", "cert_chain"})
_SERDE_NAMES = {"signature_algo": "sig_algo", "platform_info": "plat_info"}
TCB_NAMES = ("current_tcb", "reported_tcb", "committed_tcb", "launch_tcb")
_SERDE_NUMBERS: dict[str, tuple[int, int]] = {
    **{_SERDE_NAMES.get(f.name, f.name): (f.offset, f.size) for f in PLACES.values() if f.kind != "bytes"},
    "_author_key_en": (0x048, 4),
    "_reserved_0": (0x04C, 4),
    "_reserved_2": (0x1EB, 1),
    "_reserved_3": (0x1EF, 1),
}
"""Member → offset and bytes. The names with an underscore are those of the crate before version 6."""
_SERDE_BYTES: dict[str, tuple[tuple[int, int], ...]] = {
    **{
        f.name: ((f.offset, f.size),)
        for f in PLACES.values()
        if f.kind == "bytes" and f.name not in (*TCB_NAMES, "signature_r", "signature_s")
    },
    "_reserved_1": ((0x188, 24), (0x18B, 21)),  # before and after the crate knew CPUID
    "_reserved_4": ((0x1F8, 168),),
}
"""Member → places it can fill, distinguished by its length."""
_SERDE_VERSIONS = {"current": 0x1E8, "committed": 0x1EC}
_SERDE_MEMBERS = frozenset(
    {"version", "signature", *TCB_NAMES, *_SERDE_NUMBERS, *_SERDE_BYTES, *_SERDE_VERSIONS},
)
_ABSENT_IN_OLDER_REPORTS = frozenset(
    {"cpuid_fam_id", "cpuid_mod_id", "cpuid_step", "launch_mit_vector", "current_mit_vector"}
)


def read_report_json(document: JsonValue) -> PeerSnpEvidence:
    """Read Trustee's SNP evidence of any generation, or the inner object of attestation-rs.

    Raises:
        EvidenceError: ``peer-form-malformed`` with the path of the member, or ``base64-invalid``.
        UnsupportedError: ``snp-version-unsupported``.
    """
    members = PEER_FORM.object_of(document, "evidence", members=_TRUSTEE_MEMBERS)
    report = members.get("attestation_report")
    if isinstance(report, str):
        raw = base64_of_either_alphabet(report, what="attestation_report")
        if len(raw) != REPORT_BYTES:
            raise PEER_FORM.malformed("attestation_report", f"{REPORT_BYTES} bytes in base64", f"{len(raw)}")
        form = "SEV-SNP report in base64 within JSON (Trustee, attestation-rs)"
    else:
        raw = _report_of_struct(report)
        form = "Trustee SNP evidence (JSON)"
    return PeerSnpEvidence(form=form, report=raw, entries=_chain(members.get("cert_chain"), raw))


def _report_of_struct(document: JsonValue) -> bytes:
    path = "attestation_report"
    members = PEER_FORM.object_of(document, path, members=_SERDE_MEMBERS)
    report = ReportBytes(PEER_FORM.number_of(members.get("version"), f"{path}.version", size=4), path=f"{path}.version")
    for name, value in members.items():
        if value is None and name in _ABSENT_IN_OLDER_REPORTS:
            continue
        for offset, raw in _placed(name, value, f"{path}.{name}"):
            report.put(offset, raw, path=f"{path}.{name}")
    return report.finish(path=path)


def _placed(name: str, value: JsonValue, path: str) -> tuple[tuple[int, bytes], ...]:
    if name in TCB_NAMES:
        return ((PLACES[name].offset, _tcb(value, path)),)
    if name in _SERDE_VERSIONS:
        version = PEER_FORM.object_of(value, path, members=frozenset({"major", "minor", "build"}))
        parts = ("build", "minor", "major")
        numbers = bytes(PEER_FORM.number_of(version.get(part), f"{path}.{part}", size=1) for part in parts)
        return ((_SERDE_VERSIONS[name], numbers),)
    if name == "signature":
        return _signature(value, path)
    if name in _SERDE_NUMBERS:
        offset, size = _SERDE_NUMBERS[name]
        return ((offset, PEER_FORM.number_of(value, path, size=size).to_bytes(size, "little")),)
    places = {size: offset for offset, size in _SERDE_BYTES[name]}
    raw = PEER_FORM.bytes_of(value, path, sizes=tuple(places))
    return ((places[len(raw)], raw),)


def _tcb(value: JsonValue, path: str) -> bytes:
    """TCB_VERSION: with ``_reserved`` the eight bytes in their order, else in the layout that ``fmc`` implies."""
    members = PEER_FORM.object_of(
        value, path, members=frozenset({"fmc", "bootloader", "tee", "_reserved", "snp", "microcode"})
    )
    parts = {
        name: PEER_FORM.number_of(members.get(name), f"{path}.{name}", size=1)
        for name in ("bootloader", "tee", "snp", "microcode")
    }
    fmc = members.get("fmc")
    if "_reserved" in members:
        if fmc is not None:
            raise PEER_FORM.malformed(f"{path}.fmc", "no such member beside _reserved", "one")
        spare = PEER_FORM.bytes_of(members["_reserved"], f"{path}._reserved", sizes=(4,))
        return bytes([parts["bootloader"], parts["tee"], *spare, parts["snp"], parts["microcode"]])
    return SnpTcbVersion(
        **parts, fmc=None if fmc is None else PEER_FORM.number_of(fmc, f"{path}.fmc", size=1)
    ).to_bytes()


def _signature(value: JsonValue, path: str) -> tuple[tuple[int, bytes], ...]:
    members = PEER_FORM.object_of(value, path, members=frozenset({"r", "s", "_reserved"}))
    r, s = PLACES["signature_r"], PLACES["signature_s"]
    placed = (
        (r.offset, PEER_FORM.bytes_of(members.get("r"), f"{path}.r", sizes=(r.size,))),
        (s.offset, PEER_FORM.bytes_of(members.get("s"), f"{path}.s", sizes=(s.size,))),
    )
    if "_reserved" not in members:
        return placed
    rest = s.offset + s.size
    return (
        *placed,
        (rest, PEER_FORM.bytes_of(members["_reserved"], f"{path}._reserved", sizes=(REPORT_BYTES - rest,))),
    )


def _chain(chain: JsonValue, report: bytes) -> tuple[TableEntry, ...]:
    if chain is None:
        return ()
    if isinstance(chain, list):
        found = [_trustee_entry(entry, f"cert_chain[{index}]") for index, entry in enumerate(chain)]
        return table_entries([entry for entry in found if entry is not None])
    members = PEER_FORM.object_of(chain, "cert_chain", members=frozenset({"vcek", "ask", "ark"}))
    texts = {
        name: PEER_FORM.text_of(value, f"cert_chain.{name}") for name, value in members.items() if value is not None
    }
    # The member is called vcek whatever it holds; the report names the kind of its signer (KEY_INFO, bits 4:2).
    leaf = "VLEK" if report[PLACES["key_info"].offset] >> 2 & 7 == 1 else "VCEK"
    kinds = {"vcek": leaf, "ask": "ASK", "ark": "ARK"}
    return table_entries(
        [
            TableEntry(kind=kinds[name], data=base64_of_either_alphabet(text, what=f"cert_chain.{name}"))
            for name, text in texts.items()
        ]
    )


def _trustee_entry(value: JsonValue, path: str) -> TableEntry | None:
    """One certificate; None for the empty entry that ends a table and for kinds that verification has no use for."""
    members = PEER_FORM.object_of(value, path, members=frozenset({"cert_type", "data"}))
    kind = members.get("cert_type")
    if isinstance(kind, dict):  # {"OTHER": "<guid>"}: what the crate had no name for, such as a VLEK in its early days
        other = PEER_FORM.object_of(kind, f"{path}.cert_type", members=frozenset({"OTHER"}))
        known = GUID_KINDS.get(PEER_FORM.text_of(other.get("OTHER"), f"{path}.cert_type.OTHER").lower())
    else:
        known = PEER_FORM.text_of(kind, f"{path}.cert_type")
        if known not in ("ARK", "ASK", "VCEK", "VLEK", "CRL", "Empty"):
            raise PEER_FORM.malformed(f"{path}.cert_type", "ARK, ASK, VCEK, VLEK, CRL, Empty or OTHER", "another name")
    data = members.get("data")
    if isinstance(data, str):
        content = base64_of_either_alphabet(data, what=f"{path}.data")
    else:
        content = PEER_FORM.bytes_of(data, f"{path}.data")
    return None if known is None or known == "Empty" else TableEntry(kind=known, data=content)


# -- attestation-rs


def read_attestation_rs(document: JsonValue) -> PeerSnpEvidence:
    """Read the outer object of attestation-rs, for a platform of ``ATTESTATION_RS_PLATFORMS``.

    Raises:
        EvidenceError: ``peer-form-malformed`` or ``base64-invalid``.
        UnsupportedError: ``evidence-unsupported``, another platform; ``snp-version-unsupported``.
    """
    members = PEER_FORM.object_of(document, "evidence", members=frozenset({"platform", "evidence"}))
    platform = PEER_FORM.text_of(members.get("platform"), "platform")
    if platform not in ATTESTATION_RS_PLATFORMS:
        raise UnsupportedError(
            f"attestation-rs evidence of the platform {platform[:40]!r} is not verified by this version",
            code="evidence-unsupported",
            field="platform",
            expected=" or ".join(ATTESTATION_RS_PLATFORMS),
            got=repr(platform[:40]),
        )
    inner = read_report_json(members.get("evidence"))
    return replace(inner, form=f"attestation-rs evidence (JSON, platform {platform})")
