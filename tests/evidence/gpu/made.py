"""Reports and devices written byte by byte, by hand: no table of the parser is used, so that both must agree."""

import base64
import json
from pathlib import Path
from typing import Any

from attest.evidence.snp.tcb import SnpProduct
from attest_simulator import SimulatedChip

NONCE = bytes(range(32))
ANSWER = bytes(range(100, 132))
SIGNATURE = b"\x01" * 48 + b"\x02" * 48
VBIOS = bytes.fromhex("007400961a000000")

GPU_ENTRIES: tuple[tuple[int, bytes], ...] = (
    (6, VBIOS),
    (14, b"\xb1\x03\0\0"),
    (15, b"885\0\0\0\0\0\0"),
    (16, b"0\0\0\0\0"),
    (17, b"G520\0"),
    (18, b"0200\0"),
    (19, b"\0\0"),
    (3, b"590.12\0"),
    (4, b"\x80\x01" + bytes(6)),
    (12, bytes(256)),
    (13, b"\0\xc0\x01\0"),
    (11, b"\x55"),
    (20, bytes(range(48))),
    (21, b"\xaa"),
    (22, b"".join(bytes([link]) * 7 + b"\xee" for link in range(18))),
    (34, b"\1\0"),
    (35, b"GB202\0"),
    (36, b"\2\0"),
)
SWITCH_ENTRIES: tuple[tuple[int, bytes], ...] = (
    (6, b"96.10.73.00.01"),
    (22, b"\x01\x02\x03\x04\x05\x06\x07\x08"),
    (12, bytes(108)),
    (26, b"".join(bytes([gpu]) * 8 for gpu in range(8)) + b"\xff" * 64),
    (23, b"\xec\0"),
    (24, b"\0\0"),
    (25, b"\1\0"),
)


def entry(kind: int, value: bytes) -> bytes:
    return kind.to_bytes(2, "little") + len(value).to_bytes(2, "little") + value


def opaque(entries: tuple[tuple[int, bytes], ...] = GPU_ENTRIES, /, **replaced: bytes) -> bytes:
    """Write entries; ``t36=b"..."`` replaces the value of type 36, or appends it."""
    changes = {int(name.removeprefix("t")): value for name, value in replaced.items()}
    known = {kind for kind, _ in entries}
    written = [entry(kind, changes.get(kind, value)) for kind, value in entries]
    return b"".join(written + [entry(kind, value) for kind, value in changes.items() if kind not in known])


def block(index: int, value: bytes | None = None) -> bytes:
    digest = bytes([index]) * 48 if value is None else value
    return bytes([index, 1, 51, 0, 1, 48, 0]) + digest


def report(data: bytes | None = None, *, count: int = 64, nonce: bytes = NONCE) -> bytes:
    """Write a report around opaque data."""
    data = opaque() if data is None else data
    blocks = b"".join(block(index) for index in range(1, count + 1))
    request = b"\x11\xe0\x01\xff" + nonce + b"\0"
    head = b"\x11\x60\0\0" + bytes([count]) + len(blocks).to_bytes(3, "little")
    return request + head + blocks + ANSWER + len(data).to_bytes(2, "little") + data + SIGNATURE


GPU = report()
SWITCH = report(opaque(SWITCH_ENTRIES), count=31)


def pem(*ders: bytes, label: str = "CERTIFICATE") -> bytes:
    lines = [base64.encodebytes(der).decode().strip() for der in ders]
    return "".join(f"-----BEGIN {label}-----\n{text}\n-----END {label}-----\n" for text in lines).encode()


CERTIFICATES = SimulatedChip.of(SnpProduct.GENOA).certificates()
"""Any certificates do: whether they are a device's is not asked when a file is read."""
CHAIN = pem(*CERTIFICATES)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def device(data: bytes = GPU, /, **members: object) -> dict[str, Any]:
    """Write the object of one device; a member that is None is left out."""
    written: dict[str, Any] = {
        "arch": "HOPPER",
        "nonce": data[4:36].hex(),
        "evidence": b64(data),
        "certificate": b64(CHAIN),
        **members,
    }
    return {name: value for name, value in written.items() if value is not None}


def jsons(document: object) -> bytes:
    return json.dumps(document).encode()


REPORTS = (
    "gh100-535.86.09",
    "gh100-545.00",
    "gh100-550.90.07",
    "gh100-560.00-bad-signature",
    "gh100-580.95.05-trailing-byte",
)
BOARD = "ppcie-hgx-8gpu-4switch"


def recorded(vectors_dir: Path, name: str) -> bytes:
    return bytes.fromhex((vectors_dir / "nvidia" / name / "report.hex").read_text().strip())


def facts(vectors_dir: Path, path: str) -> Any:  # noqa: ANN401  a list for a file of devices, else an object
    """Return what the manifest says about a file."""
    files = json.loads((vectors_dir / "nvidia" / "MANIFEST.json").read_text())["files"]
    return next(file["facts"] for file in files if file["path"] == path)


def board(vectors_dir: Path, which: str) -> list[Any]:
    """Return the devices of the recorded board, ``gpu`` or ``switch``."""
    devices: list[Any] = json.loads((vectors_dir / "nvidia" / BOARD / f"{which}_evidence.json").read_text())
    return devices
