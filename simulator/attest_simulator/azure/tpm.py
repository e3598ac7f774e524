"""A software virtual TPM: registers, and quotes of them by a public attestation key.

Written independently of the parser's tables: their agreement is a test. Every field of a
quote can be replaced, so that a test can sign invalid ones. Integers are big-endian.

Spec: TPM 2.0 Library, part 2, TPMS_ATTEST and TPMT_PUBLIC; specs/azure-cvm.md, section 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from attest.evidence.azure.forms import RawTpmQuote
from attest_simulator.azure.keys import derived_bytes, tpm_key
from attest_simulator.tpm_bytes import sized, u16, u32

PCRS: Final = 24
ALL_PCRS: Final = tuple(range(PCRS))
_SHA256: Final = 0x000B
_REGISTER_BYTES: Final = 32
_MAX_EXTRA_BYTES: Final = 50
"""Capacity of TPM2B_DATA without a hash above SHA-384: a TPMT_HA."""

_ENDORSEMENT_HIERARCHY = 0x4000000B
_AK_ATTRIBUTES = 0x00050472
"""fixedTPM, fixedParent, sensitiveDataOrigin, userWithAuth, noDA, restricted, sign: they give the real names."""

_ZERO, _ONES = bytes(_REGISTER_BYTES), b"\xff" * _REGISTER_BYTES
_DYNAMIC = range(17, 23)
"""Registers of a dynamic launch, initially all ones."""
_MEASURED = (0, 1, 4, 5, 6, 7, 9, 10, 12, 14)
_SEPARATED = (2, 3)
"""Registers with only the separator before the boot loader."""


def boot_registers(*, secure_boot: bool = True) -> tuple[bytes, ...]:
    """Return the 24 registers after an ordinary boot; the used ones are those of real VMs.

    Args:
        secure_boot: measured into PCR 7.
    """
    values = dict.fromkeys(ALL_PCRS, _ZERO) | dict.fromkeys(_DYNAMIC, _ONES)
    values |= {index: extended(_ZERO, sha256(bytes(4)).digest()) for index in _SEPARATED}
    values |= {index: extended(_ZERO, derived_bytes(32, "measured", str(index))) for index in _MEASURED}
    if not secure_boot:
        values[7] = extended(_ZERO, derived_bytes(32, "measured", "7", "no Secure Boot"))
    return tuple(values[index] for index in ALL_PCRS)


def extended(value: bytes, digest: bytes) -> bytes:
    """Return a register of the SHA-256 bank extended by a digest of 32 bytes."""
    return sha256(value + digest).digest()


def qualified_name(ak_public: rsa.RSAPublicKey) -> bytes:
    """Return the qualified name of a primary signing key in the endorsement hierarchy, 34 bytes.

    Spec: TPM 2.0 Library, part 1, Names; part 2, TPMT_PUBLIC.
    """
    modulus = ak_public.public_numbers().n.to_bytes(ak_public.key_size // 8, "big")
    no_symmetric, rsassa = 0x0010, 0x0014
    public = b"".join(
        (
            u16(0x0001, _SHA256),
            u32(_AK_ATTRIBUTES),
            sized(b""),
            u16(no_symmetric, rsassa, _SHA256, ak_public.key_size),
            u32(0),
            sized(modulus),
        )
    )
    name = u16(_SHA256) + sha256(public).digest()
    return u16(_SHA256) + sha256(u32(_ENDORSEMENT_HIERARCHY) + name).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestTemplate:
    """A quote without its signature; ``dataclasses.replace`` makes invalid ones.

    Attributes:
        qualified_signer: name of the key.
        extra_data: nonce of the quote.
        pcrs: values of the selected registers, ascending.
        selections: hash algorithm and bitmap of each bank.
        key: for the signature.
        pcr_digest: None uses the digest of ``pcrs``.
        magic: 0xFF544347.
        kind: 0x8018, a quote.
        clock: milliseconds since the TPM's start.
        reset_count: restarts.
        restart_count: resumptions.
        safe: 1 if the clock never went back.
        firmware_version: 64 bits.
        trailing: bytes after the last field.
    """

    qualified_signer: bytes
    extra_data: bytes
    pcrs: tuple[bytes, ...]
    selections: tuple[tuple[int, bytes], ...]
    key: rsa.RSAPrivateKey = field(repr=False)
    pcr_digest: bytes | None = None
    magic: int = 0xFF544347
    kind: int = 0x8018
    clock: int = 0
    reset_count: int = 0
    restart_count: int = 0
    safe: int = 1
    firmware_version: int = 0
    trailing: bytes = b""

    def message(self) -> bytes:
        """Return TPMS_ATTEST."""
        digest = sha256(b"".join(self.pcrs)).digest() if self.pcr_digest is None else self.pcr_digest
        banks = (u16(bank) + bytes([len(bitmap)]) + bitmap for bank, bitmap in self.selections)
        return b"".join(
            (
                u32(self.magic),
                u16(self.kind),
                sized(self.qualified_signer),
                sized(self.extra_data),
                self.clock.to_bytes(8, "big"),
                u32(self.reset_count, self.restart_count),
                bytes([self.safe]),
                self.firmware_version.to_bytes(8, "big"),
                u32(len(self.selections)),
                *banks,
                sized(digest),
                self.trailing,
            )
        )

    def issue(self) -> RawTpmQuote:
        """Return signature (RSASSA-PKCS1-v1_5, SHA-256), message and values."""
        message = self.message()
        signature = self.key.sign(message, padding.PKCS1v15(), hashes.SHA256())
        return RawTpmQuote(signature, message, self.pcrs)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedTpm:
    """The virtual TPM of one VM at one moment.

    Attributes:
        name: public text from which its keys are derived.
        pcrs: 24 registers of the SHA-256 bank, 32 bytes each.
        clock: milliseconds since its start.
        reset_count: restarts of the VM.
        restart_count: resumptions.
        safe: the clock never went back.
        firmware_version: that of all known TPMs.

    Raises:
        ValueError: other than 24 registers of 32 bytes.
    """

    name: str = "VM 0"
    pcrs: tuple[bytes, ...] = boot_registers()
    clock: int = 1_800_000
    reset_count: int = 2
    restart_count: int = 0
    safe: bool = True
    firmware_version: int = 0x2020031200120003

    def __post_init__(self) -> None:
        """Refuse impossible registers."""
        if [len(value) for value in self.pcrs] != [_REGISTER_BYTES] * PCRS:
            raise ValueError(f"expected {PCRS} registers of {_REGISTER_BYTES} bytes")

    @property
    def ak(self) -> rsa.RSAPrivateKey:
        """The attestation key, RSA-2048; not secret."""
        return tpm_key(self.name, "AK")

    @property
    def ek(self) -> rsa.RSAPrivateKey:
        """The endorsement key, RSA-2048; unused here and not secret."""
        return tpm_key(self.name, "EK")

    def extend(self, index: int, digest: bytes) -> SimulatedTpm:
        """Return this TPM after one more measurement.

        Args:
            index: 0 to 23.
            digest: 32 bytes.

        Raises:
            ValueError: another register, or a digest of another length.
        """
        if len(digest) != _REGISTER_BYTES:
            raise ValueError(f"a digest of the SHA-256 bank has {_REGISTER_BYTES} bytes, got {len(digest)}")
        return self.with_pcrs({index: extended(self.pcrs[index], digest) if index in ALL_PCRS else _ZERO})

    def with_pcrs(self, values: Mapping[int, bytes]) -> SimulatedTpm:
        """Return this TPM with other values in some registers, beyond a guest's possibilities.

        Raises:
            ValueError: another register than 0 to 23, or a value of another length.
        """
        strange = sorted(values.keys() - set(ALL_PCRS))
        if strange:
            raise ValueError(f"PCR {strange[0]}: expected 0 to {PCRS - 1}")
        return replace(self, pcrs=tuple(values.get(index, old) for index, old in enumerate(self.pcrs)))

    def quote_template(self, extra_data: bytes, *, indices: tuple[int, ...] = ALL_PCRS) -> AttestTemplate:
        """Return an unsigned quote.

        Args:
            extra_data: nonce, at most 50 bytes.
            indices: registers to quote.

        Raises:
            ValueError: more than 50 bytes, no register, or an invalid one.
        """
        if len(extra_data) > _MAX_EXTRA_BYTES:
            raise ValueError(f"extraData has at most {_MAX_EXTRA_BYTES} bytes, got {len(extra_data)}")
        selected = sorted(set(indices))
        if not selected or not set(selected) <= set(ALL_PCRS):
            raise ValueError(f"registers {selected}: expected at least one of 0 to {PCRS - 1}")
        return AttestTemplate(
            qualified_signer=qualified_name(self.ak.public_key()),
            extra_data=extra_data,
            pcrs=tuple(self.pcrs[index] for index in selected),
            selections=((_SHA256, sum(1 << index for index in selected).to_bytes(3, "little")),),
            key=self.ak,
            clock=self.clock,
            reset_count=self.reset_count,
            restart_count=self.restart_count,
            safe=int(self.safe),
            firmware_version=self.firmware_version,
        )

    def quote(self, extra_data: bytes, *, indices: tuple[int, ...] = ALL_PCRS) -> RawTpmQuote:
        """Return a signed quote with the covered values; arguments and errors as ``quote_template``."""
        return self.quote_template(extra_data, indices=indices).issue()
