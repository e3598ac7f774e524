"""SEV-SNP evidence of go-sev-guest: protobuf ``sevsnp.Attestation``, put back into the bytes that AMD signed.

A reader for as much of the protobuf wire format as one schema needs, and the field numbers of that schema. Whatever
``peer_forms.py`` says about forms that take a report apart holds here too.

Spec: specs/sev-snp.md, section 18; go-sev-guest, ``proto/sevsnp.proto``; protobuf, "Encoding".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attest.evidence.reader import ByteReader
from attest.evidence.snp.certificate_table import TableEntry
from attest.evidence.snp.peer_forms import (
    GUID_KINDS,
    MAX_CERTIFICATES_BYTES,
    PEER_FORM,
    PLACES,
    TCB_NAMES,
    PeerSnpEvidence,
    ReportBytes,
    table_entries,
)
from attest.evidence.snp.structure import REPORT_BYTES, SIGNED_BYTES, layout_of_version

MAX_PROTOBUF_BYTES = MAX_CERTIFICATES_BYTES + 4096
"""The certificates, and a report in at most 4 KiB."""
MAX_PROTOBUF_FIELDS = 256
"""Maximum of fields in one message; the largest message of the schema, the report, has 31."""

_REPORT_FIELDS: dict[int, str] = dict(
    enumerate(
        (
            "version",
            "guest_svn",
            "policy",
            "family_id",
            "image_id",
            "vmpl",
            "signature_algo",
            "current_tcb",
            "platform_info",
            "key_info",  # signer_info in the schema
            "report_data",
            "measurement",
            "host_data",
            "id_key_digest",
            "author_key_digest",
            "report_id",
            "report_id_ma",
            "reported_tcb",
            "chip_id",
            "committed_tcb",
            "current_build",
            "current_minor",
            "current_major",
            "committed_build",
            "committed_minor",
            "committed_major",
            "launch_tcb",
            "signature",
            "cpuid1eax_fms",
            "launch_mit_vector",
            "current_mit_vector",
        ),
        start=1,
    )
)
_SIGNATURE_BYTES = REPORT_BYTES - SIGNED_BYTES
_CPUID_FMS_MASK = 0x0FFF0FFF
_CHAIN_FIELDS = {1: "VCEK", 2: "ASK", 3: "ARK", 6: "VLEK"}
_CHAIN_EXTRAS = 7


def read_protobuf(data: bytes) -> PeerSnpEvidence:
    """Read go-sev-guest's ``sevsnp.Attestation``.

    A field that the schema does not know is refused in the report, where it could only hold signed bytes that have no
    place here, and passed over elsewhere, as protobuf asks: nothing outside the report and the certificates counts.
    The same holds for ``product``, a hint that verification takes from the certificate instead. A field that occurs
    twice is refused although protobuf would merge the two: one reader's last is another reader's first. Refused are
    also numbers that are not in their shortest form, and wire types that the schema has no use for.

    Raises:
        EvidenceError: ``peer-form-malformed`` with the path of the field, or ``truncated``.
        UnsupportedError: ``snp-version-unsupported``.
    """
    if len(data) > MAX_PROTOBUF_BYTES:
        raise PEER_FORM.malformed("Attestation", f"at most {MAX_PROTOBUF_BYTES} bytes", f"{len(data)}")
    parts = _message(data, "Attestation")
    report = _report_of_message(_bytes_field(parts, 1, "Attestation.report"))
    chain = _bytes_field(parts, 2, "Attestation.certificate_chain")
    return PeerSnpEvidence(form="go-sev-guest attestation (protobuf)", report=report, entries=_chain_of_message(chain))


def _report_of_message(data: bytes) -> bytes:
    path = "Attestation.report"
    parts = _message(data, path)
    unknown = sorted(set(parts) - set(_REPORT_FIELDS))
    if unknown:
        raise PEER_FORM.malformed(f"{path}, field {unknown[0]}", "a field of the schema", "an unknown one")
    version = _number_field(parts, 1, f"{path}.version", size=4)
    report = ReportBytes(version, path=f"{path}.version")
    layout = layout_of_version(version)
    for number, name in _REPORT_FIELDS.items():
        here = f"{path}.{name}"
        if name == "signature":
            report.put(SIGNED_BYTES, _bytes_field(parts, number, here, size=_SIGNATURE_BYTES), path=here)
        elif name == "cpuid1eax_fms":
            cpuid = _cpuid(_number_field(parts, number, here, size=4), here)
            _put_if_there(report, "cpuid_fam_id", cpuid, path=here, there="cpuid_fam_id" in layout.names)
        elif PLACES[name].kind == "bytes" and name not in TCB_NAMES:
            report.put(PLACES[name].offset, _bytes_field(parts, number, here, size=PLACES[name].size), path=here)
        else:
            size = PLACES[name].size
            raw = _number_field(parts, number, here, size=size).to_bytes(size, "little")
            _put_if_there(report, name, raw, path=here, there=name in layout.names)
    return report.finish(path=path)


def _put_if_there(report: ReportBytes, name: str, raw: bytes, *, path: str, there: bool) -> None:
    """Put a field that younger versions of the report have; in an older one only its default can be meant."""
    if there:
        report.put(PLACES[name].offset, raw, path=path)
    elif any(raw):
        raise PEER_FORM.malformed(path, "0 in a report of this version, which has no such field", raw.hex())


def _cpuid(eax: int, path: str) -> bytes:
    """Family, model and stepping, combined as the report has them, from CPUID(1).EAX."""
    if eax & ~_CPUID_FMS_MASK:
        raise PEER_FORM.malformed(path, "family, model and stepping of CPUID(1).EAX", f"{eax:#x}")
    family = (eax >> 8 & 0xF) + (eax >> 20 & 0xFF)
    if family > 0xFF:
        raise PEER_FORM.malformed(path, "a combined family of one byte", f"{family:#x}")
    return bytes([family, (eax >> 16 & 0xF) << 4 | eax >> 4 & 0xF, eax & 0xF])


def _chain_of_message(data: bytes) -> tuple[TableEntry, ...]:
    path = "Attestation.certificate_chain"
    parts = _message(data, path)
    found = [
        TableEntry(kind=kind, data=content)
        for number, kind in _CHAIN_FIELDS.items()
        if (content := _bytes_field(parts, number, f"{path}.{kind.lower()}_cert"))
    ]
    for value in parts.get(_CHAIN_EXTRAS, ()):
        kind, content = _extra(value, f"{path}.extras")
        if kind is not None:
            found.append(TableEntry(kind=kind, data=content))
    return table_entries(found)


def _extra(value: int | bytes, path: str) -> tuple[str | None, bytes]:
    """Read one pair of the map from GUID text to bytes; a GUID that certificate tables do not know has no kind."""
    if not isinstance(value, bytes):
        raise PEER_FORM.malformed(path, "a length-delimited field", "a number")
    parts = _message(value, path)
    guid = _bytes_field(parts, 1, f"{path}.key").decode("ascii", errors="replace").lower()
    return GUID_KINDS.get(guid), _bytes_field(parts, 2, f"{path}.value")


_Parts = Mapping[int, list[int | bytes]]
"""The values of each field number in order: bytes for length-delimited fields, numbers for the others."""


def _message(data: bytes, path: str) -> _Parts:
    parts: dict[int, list[int | bytes]] = {}
    for count, (number, value) in enumerate(_wire(ByteReader(data, what=path), path), start=1):
        if count > MAX_PROTOBUF_FIELDS:
            raise PEER_FORM.malformed(path, f"at most {MAX_PROTOBUF_FIELDS} fields", "more")
        parts.setdefault(number, []).append(value)
    return parts


def _wire(reader: ByteReader, path: str) -> Iterator[tuple[int, int | bytes]]:
    while reader.remaining:
        key = _varint(reader, path)
        number, wire_type = key >> 3, key & 7
        if not 0 < number < 1 << 29:
            raise PEER_FORM.malformed(path, "field numbers from 1 to 536870911", f"{number}")
        here = f"{path}, field {number}"
        if wire_type == 0:
            yield number, _varint(reader, here)
        elif wire_type == 2:
            yield number, reader.take(_varint(reader, here), here)
        else:  # fixed numbers and groups
            raise PEER_FORM.malformed(here, "wire type 0 or 2", f"{wire_type}")


def _varint(reader: ByteReader, path: str) -> int:
    """Read a base-128 number of at most 64 bits in its shortest form."""
    value = 0
    for index in range(10):
        byte = reader.unsigned(1, path)
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            if value >> 64 or (index and not byte):
                break
            return value
    raise PEER_FORM.malformed(path, "a number of at most 64 bits in its shortest form", "another")


def _only(parts: _Parts, number: int, path: str) -> int | bytes | None:
    values = parts.get(number, [])
    if len(values) > 1:
        raise PEER_FORM.malformed(path, "one value", f"{len(values)}")
    return values[0] if values else None


def _bytes_field(parts: _Parts, number: int, path: str, *, size: int | None = None) -> bytes:
    """Read bytes; those that are not there are empty, as proto3 leaves empty values out."""
    value = _only(parts, number, path)
    if isinstance(value, int):
        raise PEER_FORM.malformed(path, "a length-delimited field", "a number")
    value = value or b""
    if size is not None and len(value) != size:
        raise PEER_FORM.malformed(path, f"{size} bytes", f"{len(value)}")
    return value


def _number_field(parts: _Parts, number: int, path: str, *, size: int) -> int:
    """Read a number; one that is not there is 0, as proto3 leaves zeros out."""
    value = _only(parts, number, path)
    if value is None:
        return 0
    if isinstance(value, bytes) or value >> 8 * size:
        raise PEER_FORM.malformed(path, f"a number of at most {size} bytes", "another value")
    return value
