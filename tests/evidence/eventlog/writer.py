"""Writes event logs, from the format and independently of the parser."""

import struct
from hashlib import sha256, sha384
from uuid import UUID

SHA256, SHA384 = 0x0B, 0x0C
SPEC_ID = b"Spec ID Event03\0"
GLOBAL = UUID("8be4df61-93ca-11d2-aa0d-00e098032b8c")
IMAGE_SECURITY = UUID("d719b2cb-3d3a-4596-a3bc-dad00e67656f")
SEPARATOR, TAG, IPL, ACTION, POST_CODE, NO_ACTION = 4, 6, 0xD, 0x80000007, 1, 3
DRIVER_CONFIG, BOOT, APPLICATION, GPT, BOOT2, AUTHORITY = (
    0x80000001,
    0x80000002,
    0x80000003,
    0x80000006,
    0x8000000C,
    0x800000E0,
)


def header(
    *algorithms: tuple[int, int], index: int = 1, event_type: int = NO_ACTION, vendor: bytes = b"", extra: int = 0
) -> bytes:
    event = SPEC_ID + struct.pack("<IBBBBI", 0, 0, 2, 0, 2, len(algorithms))
    event += b"".join(struct.pack("<HH", *algorithm) for algorithm in algorithms)
    event += bytes([len(vendor)]) + vendor
    return struct.pack("<II20sI", index, event_type, b"", len(event) + extra) + event


CCEL_HEADER = header((SHA384, 48))
TCG2_HEADER = header((4, 20), (SHA256, 32), index=0)


def record(index: int, event_type: int, data: bytes, digests: list[tuple[int, bytes]]) -> bytes:
    parts = b"".join(struct.pack("<H", algorithm) + digest for algorithm, digest in digests)
    return struct.pack("<III", index, event_type, len(digests)) + parts + struct.pack("<I", len(data)) + data


def event(index: int, event_type: int, data: bytes, *, hashed: bytes | None = None) -> bytes:
    """One record with the SHA-384 digest of its data, or of what was hashed instead."""
    return record(index, event_type, data, [(SHA384, sha384(data if hashed is None else hashed).digest())])


def tpm_event(index: int, event_type: int, data: bytes) -> bytes:
    return record(index, event_type, data, [(4, bytes(20)), (SHA256, sha256(data).digest())])


def variable(name: str, value: bytes, guid: UUID = GLOBAL) -> bytes:
    return guid.bytes_le + struct.pack("<QQ", len(name), len(value)) + name.encode("utf-16-le") + value


def tagged(tag: int, text: bytes) -> bytes:
    return struct.pack("<II", tag, len(text)) + text


def aael(text: str) -> bytes:
    return tagged(0x4141454C, text.encode())


def secure_boot(value: bytes = b"\1") -> bytes:
    return event(1, DRIVER_CONFIG, variable("SecureBoot", value))


def load_options() -> bytes:
    return event(3, TAG, tagged(0x8F3B22ED, b"LOADED_IMAGE::LoadOptions\0"), hashed=b"quiet")


def separator(index: int) -> bytes:
    return event(index, SEPARATOR, bytes(4))


def boot() -> list[bytes]:
    """One event of each kind, as a machine with shim, GRUB and an attestation agent measures them."""
    return [
        secure_boot(),
        event(1, DRIVER_CONFIG, variable("PK", b"a key")),
        event(1, DRIVER_CONFIG, variable("KEK", b"")),
        event(1, DRIVER_CONFIG, variable("db", b"certificates", IMAGE_SECURITY)),
        event(1, DRIVER_CONFIG, variable("dbx", b"hashes", IMAGE_SECURITY)),
        event(1, DRIVER_CONFIG, variable("SecureBootOwner", b"x")),
        separator(1),
        event(1, BOOT, variable("BootOrder", b"\1\0"), hashed=b"\1\0"),
        event(1, BOOT2, variable("Boot0001", b"option")),
        event(1, AUTHORITY, variable("MokListRT", b"a certificate")),
        event(2, ACTION, b"Calling EFI Application from Boot Option"),
        event(2, GPT, b"EFI PART and so on"),
        event(2, APPLICATION, b"a device path", hashed=b"an image"),
        event(3, IPL, b"MokList\0", hashed=b"the list"),
        event(3, IPL, b"grub_cmd: linux /vmlinuz quiet\0", hashed=b"linux /vmlinuz quiet"),
        event(3, IPL, b"kernel_cmdline: /vmlinuz quiet\0", hashed=b"/vmlinuz quiet"),
        event(3, IPL, b"grub_cmd boot\0\x7f", hashed=b"boot\0"),
        event(3, IPL, b"grub_cmd: something else\0", hashed=b"what was run"),
        load_options(),
        event(3, TAG, tagged(0x8F3B22EC, b"Linux initrd\0"), hashed=b"an initrd"),
        event(4, TAG, aael("example.org load model.bin and more")),
        event(4, POST_CODE, b"ACPI DATA", hashed=b"tables"),
    ]


def log(*events: bytes, end: bytes = b"") -> bytes:
    return b"".join((CCEL_HEADER, *events, end))
