"""Commands to a TPM, and what is read from its answers: those with which a virtual TPM gets an Azure VM's state.

Every authorisation is an empty password. Integers are big-endian.

Spec: TPM 2.0 Library, part 1, "Structures of commands and responses"; part 2; part 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from cryptography.hazmat.primitives.asymmetric import rsa

from attest_simulator.tpm_bytes import sized, u16, u32

HEADER_BYTES: Final = 10
MAX_MESSAGE_BYTES: Final = 4096
OWNER: Final = 0x40000001
ENDORSEMENT: Final = 0x4000000B
PLATFORM: Final = 0x4000000C
NV_WRITE: Final = 0x137

COMMAND_SIZE: Final = bytes.fromhex("8001 0000000a 00000142")
"""Answer of TPM_RC_COMMAND_SIZE, to what has no size that a command can have."""

_NO_SESSIONS, _SESSIONS = 0x8001, 0x8002
_EVICT_CONTROL, _DEFINE_SPACE, _CREATE_PRIMARY = 0x120, 0x12A, 0x131
_NV_READ, _FLUSH_CONTEXT, _GET_CAPABILITY, _PCR_EXTEND = 0x14E, 0x165, 0x17A, 0x182
_PASSWORD: Final = bytes.fromhex("40000009 0000 01 0000")
"""Session of a password: its handle, no nonce, "continue", and the empty password."""
_AK: Final = bytes.fromhex("0001 000b 00050472 0000 0010 0014 000b 0800 00000000 0000")
"""RSA with SHA-256 names; fixedTPM, fixedParent, sensitiveDataOrigin, userWithAuth, noDA, restricted, sign; no policy,
no symmetric algorithm; RSASSA with SHA-256; 2,048 bits, the usual exponent; nothing unique."""
_PLATFORM_WRITES: Final = 0x42070001
"""ppWrite, ppRead, ownerRead, authRead, noDA, platformCreate."""
_HANDLES: Final = 1
_AT_ONCE: Final = 64
_PIECE_BYTES: Final = 1024
_MODULUS_BYTES: Final = 256
_EXPONENT: Final = 65537

Transmit = Callable[[bytes], bytes]
"""Sends a command, and returns the answer."""


class TpmRefusedError(Exception):
    """An answer with another return code than success, which is its only argument."""


def message_size(start: bytes) -> int | None:
    """Return the size of the message that begins like this, or None if too little of it is there."""
    return int.from_bytes(start[2:6], "big") if len(start) >= HEADER_BYTES else None


def return_code(answer: bytes) -> int:
    """Return the code of an answer, 0 for success."""
    return int.from_bytes(answer[6:HEADER_BYTES], "big")


def written_index(command: bytes) -> int | None:
    """Return the NV index that a command writes; None for other commands."""
    if int.from_bytes(command[6:HEADER_BYTES], "big") != NV_WRITE:
        return None
    return int.from_bytes(command[14:18], "big")


def create_ak(transmit: Transmit, handle: int) -> rsa.RSAPublicKey:
    """Create an attestation key in the endorsement hierarchy, keep it at a persistent handle, and return it."""
    parameters = sized(sized(b"") + sized(b"")) + sized(_AK) + sized(b"") + u32(0)
    answer = _called(transmit, _CREATE_PRIMARY, (ENDORSEMENT,), parameters)
    created = int.from_bytes(answer[:4], "big")
    public_size = int.from_bytes(answer[8:10], "big")
    modulus = answer[10 + public_size - _MODULUS_BYTES : 10 + public_size]
    _called(transmit, _EVICT_CONTROL, (OWNER, created), u32(handle))
    flush(transmit, created)
    return rsa.RSAPublicNumbers(_EXPONENT, int.from_bytes(modulus, "big")).public_key()


def define_index(transmit: Transmit, index: int, size: int) -> None:
    """Define an NV index that the platform alone writes, and every program reads."""
    area = u32(index) + u16(0x000B) + u32(_PLATFORM_WRITES) + sized(b"") + u16(size)
    _called(transmit, _DEFINE_SPACE, (PLATFORM,), sized(b"") + sized(area))


def write_index(transmit: Transmit, index: int, data: bytes) -> None:
    """Write the content of an NV index as the platform."""
    for offset in range(0, len(data), _PIECE_BYTES):
        piece = data[offset : offset + _PIECE_BYTES]
        _called(transmit, NV_WRITE, (PLATFORM, index), sized(piece) + u16(offset))


def read_index(transmit: Transmit, index: int, size: int) -> bytes:
    """Read the beginning of an NV index as the owner."""
    answer = _called(transmit, _NV_READ, (OWNER, index), u16(size, 0))
    return answer[6 : 6 + size]


def extend(transmit: Transmit, register: int, digests: Mapping[int, bytes]) -> None:
    """Extend a register by a digest for each bank."""
    values = b"".join(u16(bank) + digest for bank, digest in digests.items())
    _called(transmit, _PCR_EXTEND, (register,), u32(len(digests)) + values)


def handles(transmit: Transmit, first: int) -> tuple[int, ...]:
    """Return the handles in use, of the kind of the first one."""
    answer = _called(transmit, _GET_CAPABILITY, (), u32(_HANDLES, first, _AT_ONCE))
    return tuple(int.from_bytes(answer[at : at + 4], "big") for at in range(9, len(answer), 4))


def flush(transmit: Transmit, handle: int) -> None:
    """Drop an object or a session."""
    _called(transmit, _FLUSH_CONTEXT, (), u32(handle))


def _called(transmit: Transmit, code: int, named: tuple[int, ...], parameters: bytes) -> bytes:
    """Send a command, with a password where it names handles; return the answer after its header.

    Raises:
        TpmRefusedError: another return code than success.
    """
    session = u32(len(_PASSWORD)) + _PASSWORD if named else b""
    body = u32(*named) + session + parameters
    answer = transmit(u16(_SESSIONS if named else _NO_SESSIONS) + u32(HEADER_BYTES + len(body), code) + body)
    if return_code(answer):
        raise TpmRefusedError(f"command {code:#05x}: {return_code(answer):#05x}")
    return answer[HEADER_BYTES:]
