"""The keys of simulated virtual TPMs. Every private key here is public by design.

The keys are neither secret nor proof of anything: the primes are numbers that SHAKE256
expands from public labels. No vendor's root is above these keys; only the CPU's report authenticates them, and
the verifier separates them by its root (``TrustAnchors.simulation()``).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import lru_cache
from hashlib import shake_256
from typing import Final

from cryptography.hazmat.primitives.asymmetric import rsa

from attest_simulator.keys import PUBLIC_EXPONENT, SimulatedRsaKey, expand_prime_candidate, find_prime_counter

KEY_BITS: Final = 2048

_DOMAIN: Final = "attest simulator v1, Azure"
_PRIME_BYTES: Final = KEY_BITS // 16
_COUNTERS: Final[Mapping[tuple[str, ...], tuple[int, int]]] = {
    ("RSA-2048", "UVM", "root"): (198, 1205),
    ("RSA-2048", "UVM", "issuer"): (500, 296),
    ("RSA-2048", "UVM", "signer"): (657, 369),
    ("RSA-2048 vTPM", "VM 0", "AK"): (1037, 494),
    ("RSA-2048 vTPM", "VM 0", "EK"): (117, 323),
    ("RSA-2048 vTPM", "VM 1", "AK"): (147, 190),
    ("RSA-2048 vTPM", "VM 1", "EK"): (522, 507),
}
"""Counters of the primes p and q of the keys that most simulations use; others are searched for."""


def derived_bytes(size: int, *labels: str) -> bytes:
    """Return ``size`` bytes in place of a measurement or random bytes.

    Args:
        size: bytes.
        labels: public texts without NUL.
    """
    return shake_256("\0".join((_DOMAIN, *labels)).encode("utf-8")).digest(size)


def derived_uuid(*labels: str) -> str:
    """Return a UUID of these public texts, formed as version 4, lower case."""
    return str(uuid.UUID(bytes=derived_bytes(16, *labels), version=4))


@lru_cache(maxsize=64)
def tpm_key(*labels: str) -> rsa.RSAPrivateKey:
    """Return the RSA key of 2,048 bits for these public texts; a quarter of a second if it is not in the table."""
    p, q = _primes(f"RSA-{KEY_BITS} vTPM", *labels)
    private = pow(PUBLIC_EXPONENT, -1, (p - 1) * (q - 1))
    return rsa.RSAPrivateNumbers(
        p=p,
        q=q,
        d=private,
        dmp1=rsa.rsa_crt_dmp1(private, p),
        dmq1=rsa.rsa_crt_dmq1(private, q),
        iqmp=rsa.rsa_crt_iqmp(p, q),
        public_numbers=rsa.RSAPublicNumbers(PUBLIC_EXPONENT, p * q),
    ).private_key()


@lru_cache(maxsize=8)
def rsa_key(*labels: str) -> SimulatedRsaKey:
    """Return such a key, which signs with RSASSA-PSS and SHA-384, deterministically."""
    p, q = _primes(f"RSA-{KEY_BITS}", *labels)
    return SimulatedRsaKey(label=" ".join(labels), p=p, q=q)


def _primes(*labels: str) -> tuple[int, int]:
    names = ["\0".join((*labels, half)) for half in "pq"]
    counters = _COUNTERS.get(labels) or search_counters(*labels)
    p, q = (
        expand_prime_candidate(name, counter, size=_PRIME_BYTES) for name, counter in zip(names, counters, strict=True)
    )
    return p, q


def search_counters(*labels: str) -> tuple[int, int]:
    """Return the counters of both primes of these labels."""
    p, q = (find_prime_counter("\0".join((*labels, half)), size=_PRIME_BYTES) for half in "pq")
    return p, q
