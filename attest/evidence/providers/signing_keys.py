"""Signing keys of dstack's applications: the address that REPORT_DATA has, and the public keys stated beside it.

Spec: specs/providers.md, section 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from attest.encoding import hex_bytes
from attest.errors import EvidenceError
from attest.evidence.keccak import keccak256
from attest.evidence.providers.comparison import equal
from attest.evidence.providers.document import StepFacts
from attest.evidence.providers.values import FORM, Members, given, hex_at, text_at

_POINT_BYTES = 64
_UNCOMPRESSED = b"\4"
_PUBLIC_KEYS = ("signing_public_key", "signing_key")
"""Members with the public key; Venice has both."""


class _Algorithm(NamedTuple):
    """One kind of signing key: prefix and size of its address, sizes of the public key, and the address of a key."""

    prefix: str
    address_bytes: int
    key_bytes: tuple[int, ...]
    address_of: Callable[[bytes], bytes]


def _ethereum_address(key: bytes) -> bytes:
    return keccak256(key)[12:]


def _same(key: bytes) -> bytes:
    return key


_ALGORITHMS: Mapping[str, _Algorithm] = {
    "ecdsa": _Algorithm("0x", 20, (_POINT_BYTES, 1 + _POINT_BYTES), _ethereum_address),
    "ed25519": _Algorithm("", 32, (32,), _same),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedSigningKey:
    """The signing key as a document states it.

    Attributes:
        address: 20 bytes (ecdsa) or 32 bytes (ed25519, the public key itself).
        public_keys: each stated public key with the member that has it; of ecdsa 64 bytes x ‖ y.
    """

    algorithm: str
    address: bytes
    public_keys: tuple[tuple[str, bytes], ...]

    def require_fitting(self) -> StepFacts:
        """Require every stated public key to have this address.

        Raises:
            BindingError: ``provider-key-mismatch``.
        """
        for name, key in self.public_keys:
            equal(
                self.address,
                _ALGORITHMS[self.algorithm].address_of(key),
                f"{name} is not the key of signing_address",
                code="provider-key-mismatch",
                field=name,
            )
        stated = ", ".join(name for name, _ in self.public_keys) or "no public key is stated"
        return StepFacts(f"keys of the address {self.address.hex()}", stated)

    @property
    def public_key(self) -> bytes | None:
        """The public key; an ed25519 address is one, of an ecdsa address it has to be stated."""
        if self.algorithm == "ed25519":
            return self.address
        return self.public_keys[0][1] if self.public_keys else None


def read_signing_key(members: Members, path: str) -> StatedSigningKey:
    """Read address, algorithm and public keys of one machine.

    Raises:
        EvidenceError: ``provider-document-malformed``.
    """
    name = text_at(members, "signing_algo", path)
    algorithm = _ALGORITHMS.get(name)
    if algorithm is None:
        raise FORM.malformed(f"{path}.signing_algo", " or ".join(_ALGORITHMS), repr(name[:40]))
    keys: list[tuple[str, bytes]] = []
    for member in _PUBLIC_KEYS:
        if given(members, member):
            key = hex_at(members, member, path, sizes=algorithm.key_bytes)
            if len(key) == 1 + _POINT_BYTES:
                if key[:1] != _UNCOMPRESSED:
                    raise FORM.malformed(f"{path}.{member}", "65 bytes that begin with 04", f"{key[0]:02x}")
                key = key[1:]
            keys.append((member, key))
    return StatedSigningKey(algorithm=name, address=_address(members, path, algorithm), public_keys=tuple(keys))


def _address(members: Members, path: str, algorithm: _Algorithm) -> bytes:
    text, where = text_at(members, "signing_address", path), f"{path}.signing_address"
    expected = f"{algorithm.prefix or 'hex'} and {algorithm.address_bytes} bytes of hex"
    try:
        address = hex_bytes(text.removeprefix(algorithm.prefix), what=where)
    except EvidenceError as exc:
        raise FORM.malformed(where, expected, f"{len(text)} characters") from exc
    if len(address) != algorithm.address_bytes or not text.startswith(algorithm.prefix):
        raise FORM.malformed(where, expected, f"{len(text)} characters")
    return address
