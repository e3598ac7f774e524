"""Writers of SEV-SNP evidence in the forms of other projects, independent of the readers."""

from typing import Any

Document = dict[str, Any]


def number(raw: bytes) -> int:
    return int.from_bytes(raw, "little")


def sev_struct(raw: bytes, *, turin: bool = False) -> Document:
    """The ``sev`` crate from version 6 on: CPUID and mitigation vectors may be null, firmware versions are objects."""
    version = number(raw[0:4])

    def tcb(at: int) -> Document:
        names = ("fmc", "bootloader", "tee", "snp") if turin else ("bootloader", "tee")
        values = dict(zip(names, raw[at : at + 4], strict=False))
        return {"fmc": None, "snp": raw[at + 6]} | values | {"microcode": raw[at + 7]}

    def firmware(at: int) -> Document:
        return {"major": raw[at + 2], "minor": raw[at + 1], "build": raw[at]}

    document: Document = {
        "version": version,
        "guest_svn": number(raw[0x04:0x08]),
        "policy": number(raw[0x08:0x10]),
        "family_id": list(raw[0x10:0x20]),
        "image_id": list(raw[0x20:0x30]),
        "vmpl": number(raw[0x30:0x34]),
        "sig_algo": number(raw[0x34:0x38]),
        "current_tcb": tcb(0x38),
        "plat_info": number(raw[0x40:0x48]),
        "key_info": number(raw[0x48:0x4C]),
        "report_data": list(raw[0x50:0x90]),
        "measurement": list(raw[0x90:0xC0]),
        "host_data": list(raw[0xC0:0xE0]),
        "id_key_digest": list(raw[0xE0:0x110]),
        "author_key_digest": list(raw[0x110:0x140]),
        "report_id": list(raw[0x140:0x160]),
        "report_id_ma": list(raw[0x160:0x180]),
        "reported_tcb": tcb(0x180),
        "cpuid_fam_id": raw[0x188] if version > 2 else None,
        "cpuid_mod_id": raw[0x189] if version > 2 else None,
        "cpuid_step": raw[0x18A] if version > 2 else None,
        "chip_id": list(raw[0x1A0:0x1E0]),
        "committed_tcb": tcb(0x1E0),
        "current": firmware(0x1E8),
        "committed": firmware(0x1EC),
        "launch_tcb": tcb(0x1F0),
        "launch_mit_vector": number(raw[0x1F8:0x200]) if version > 4 else None,
        "current_mit_vector": number(raw[0x200:0x208]) if version > 4 else None,
        "signature": {"r": list(raw[0x2A0:0x2E8]), "s": list(raw[0x2E8:0x330])},
    }
    return document


def old_sev_struct(raw: bytes, *, knows_cpuid: bool = False) -> Document:
    """The crate before version 6: every reserved byte is a member, and a TCB has one layout only."""

    def tcb(at: int) -> Document:
        return {
            "bootloader": raw[at],
            "tee": raw[at + 1],
            "_reserved": list(raw[at + 2 : at + 6]),
            "snp": raw[at + 6],
            "microcode": raw[at + 7],
        }

    document = sev_struct(raw)
    for name in ("cpuid_fam_id", "cpuid_mod_id", "cpuid_step", "current", "committed", "key_info"):
        del document[name]
    del document["launch_mit_vector"], document["current_mit_vector"]
    document |= {
        "_author_key_en": number(raw[0x48:0x4C]),
        "_reserved_0": number(raw[0x4C:0x50]),
        "_reserved_1": list(raw[0x188:0x1A0]),
        "current_build": raw[0x1E8],
        "current_minor": raw[0x1E9],
        "current_major": raw[0x1EA],
        "_reserved_2": raw[0x1EB],
        "committed_build": raw[0x1EC],
        "committed_minor": raw[0x1ED],
        "committed_major": raw[0x1EE],
        "_reserved_3": raw[0x1EF],
        "_reserved_4": list(raw[0x1F8:0x2A0]),
    }
    document |= {name: tcb(at) for name, at in (("current_tcb", 0x38), ("reported_tcb", 0x180))}
    document |= {name: tcb(at) for name, at in (("committed_tcb", 0x1E0), ("launch_tcb", 0x1F0))}
    document["signature"]["_reserved"] = list(raw[0x330:])
    if knows_cpuid:
        document |= {"cpuid_fam_id": raw[0x188], "cpuid_mod_id": raw[0x189], "cpuid_step": raw[0x18A]}
        document |= {"_reserved_1": list(raw[0x18B:0x1A0]), "key_info": document.pop("_author_key_en")}
    return document


def trustee(report: object, chain: object = None) -> Document:
    return {"attestation_report": report, "cert_chain": chain}


def varint(value: int) -> bytes:
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F)
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


def field(place: int, value: int | bytes) -> bytes:
    """One protobuf field; proto3 writes no zeros and no empty bytes, which the callers see to."""
    if isinstance(value, int):
        return varint(place << 3) + varint(value)
    return varint(place << 3 | 2) + varint(len(value)) + value


def message(fields: dict[int, int | bytes]) -> bytes:
    return b"".join(field(place, value) for place, value in fields.items() if value)


def report_fields(raw: bytes) -> dict[int, int | bytes]:
    """The fields of go-sev-guest's Report."""
    family, model, stepping = raw[0x188:0x18B]
    eax = 0 if not family else (family - 0xF) << 20 | model >> 4 << 16 | 0xF << 8 | (model & 0xF) << 4 | stepping
    spans: list[tuple[int, int, int]] = [
        *((1, 0x00, 4), (2, 0x04, 4), (3, 0x08, 8), (6, 0x30, 4), (7, 0x34, 4), (8, 0x38, 8), (9, 0x40, 8)),
        *((10, 0x48, 4), (18, 0x180, 8), (20, 0x1E0, 8), (21, 0x1E8, 1), (22, 0x1E9, 1), (23, 0x1EA, 1)),
        *((24, 0x1EC, 1), (25, 0x1ED, 1), (26, 0x1EE, 1), (27, 0x1F0, 8), (30, 0x1F8, 8), (31, 0x200, 8)),
    ]
    fields: dict[int, int | bytes] = {place: number(raw[at : at + size]) for place, at, size in spans}
    fields |= {4: raw[0x10:0x20], 5: raw[0x20:0x30], 11: raw[0x50:0x90], 12: raw[0x90:0xC0], 13: raw[0xC0:0xE0]}
    fields |= {14: raw[0xE0:0x110], 15: raw[0x110:0x140], 16: raw[0x140:0x160], 17: raw[0x160:0x180]}
    fields |= {19: raw[0x1A0:0x1E0], 28: raw[0x2A0:0x4A0], 29: eax}
    return dict(sorted(fields.items()))


def attestation(raw: bytes, chain: dict[int, int | bytes] | None = None) -> bytes:
    return field(1, message(report_fields(raw))) + (field(2, message(chain)) if chain else b"")
