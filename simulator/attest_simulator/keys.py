"""The keys of the software AMD. Every private key here is public by design.

The keys are neither secret nor proof of anything: they are derived from the labels below. They let a developer
without the hardware make byte-exact evidence, and the verifier separates them
by their roots (``TrustAnchors.simulation()``).

No key material is stored. A prime is a number that SHAKE256 expands from a label and a counter; the table has the
counters of primes, so that loading a key costs two hashes and no search.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha384, shake_256
from math import gcd
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion

RSA_BITS: Final = 4096
PUBLIC_EXPONENT: Final = 65537
SALT_BYTES: Final = 48

_PRIME_BYTES = RSA_BITS // 16
_SMALL_PRIMES_BELOW = 20_000
_DOMAIN = b"attest simulator v1, a public key pair: "
_ORDER_P384: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFC7634D81F4372DDF581A0DB248B0A77AECEC196ACCC52973


class CaRole(enum.StrEnum):
    """The certificate authorities of a product line."""

    ARK = "ARK"
    ASK = "ASK"
    ASVK = "ASVK"


_COUNTERS: Final[Mapping[tuple[SnpProduct, CaRole], tuple[int, int]]] = {
    (SnpProduct.MILAN, CaRole.ARK): (369, 685),
    (SnpProduct.MILAN, CaRole.ASK): (345, 43),
    (SnpProduct.MILAN, CaRole.ASVK): (1783, 638),
    (SnpProduct.GENOA, CaRole.ARK): (165, 1663),
    (SnpProduct.GENOA, CaRole.ASK): (1070, 592),
    (SnpProduct.GENOA, CaRole.ASVK): (693, 3075),
    (SnpProduct.TURIN, CaRole.ARK): (1015, 1818),
    (SnpProduct.TURIN, CaRole.ASK): (1531, 368),
    (SnpProduct.TURIN, CaRole.ASVK): (204, 734),
}
"""Counters of primes p and q, found by ``find_prime_counter``."""


# -- primes from labels


def expand_prime_candidate(label: str, counter: int, *, size: int = _PRIME_BYTES) -> int:
    """Return the candidate of a label and a counter.

    The two highest bits are set, so that the product of two candidates has exactly twice their bits, and the lowest.

    Args:
        label: public text, UTF-8.
        counter: 0 to 2**32 - 1, hashed as 4 bytes, big-endian.
        size: bytes of the candidate.
    """
    seed = _DOMAIN + label.encode("utf-8") + b"\0" + counter.to_bytes(4, "big")
    return int.from_bytes(shake_256(seed).digest(size), "big") | 3 << (8 * size - 2) | 1


def find_prime_counter(label: str, *, size: int = _PRIME_BYTES) -> int:
    """Return the first counter whose candidate is prime and fits the public exponent.

    With 256 bytes it takes seconds, and only the test of the table calls it; with
    128 bytes, for the keys of virtual TPMs, it takes a tenth of a second.
    """
    sieve = _small_primes_product()
    counter = 0
    while True:
        candidate = expand_prime_candidate(label, counter, size=size)
        if gcd(candidate, sieve) == 1 and candidate % PUBLIC_EXPONENT != 1 and is_probable_prime(candidate):
            return counter
        counter += 1


def is_probable_prime(number: int, *, rounds: int = 8) -> bool:
    """Apply Miller–Rabin with bases derived from the number itself.

    Args:
        number: odd, above 3.
        rounds: a composite of this size passes one with a chance far below 1 in 4.
    """
    twos = ((number - 1) & (1 - number)).bit_length() - 1
    odd = (number - 1) >> twos
    return all(_passes(number, _base(number, index), odd, twos) for index in range(rounds))


def _base(number: int, index: int) -> int:
    digest = shake_256(number.to_bytes(_PRIME_BYTES, "big") + bytes([index])).digest(_PRIME_BYTES)
    return 2 + int.from_bytes(digest, "big") % (number - 3)


def _passes(number: int, base: int, odd: int, twos: int) -> bool:
    power = pow(base, odd, number)
    if power in {1, number - 1}:
        return True
    return any((power := power * power % number) == number - 1 for _ in range(twos - 1))


@lru_cache(maxsize=1)
def _small_primes_product() -> int:
    product = 1
    for number in range(3, _SMALL_PRIMES_BELOW, 2):
        if gcd(product, number) == 1:
            product *= number
    return product


# -- RSA keys of the authorities


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRsaKey:
    """An RSA key pair with a publicly derivable private half, of 4,096 bits in every authority of AMD.

    Attributes:
        label: origin of its primes.
        p: first prime, half of the bits.
        q: second prime, as above.
    """

    label: str
    p: int = field(repr=False)
    q: int = field(repr=False)

    @property
    def spki(self) -> bytes:
        """SubjectPublicKeyInfo, DER."""
        return public_key_info(self.public_key())

    def public_key(self) -> rsa.RSAPublicKey:
        """Return the public half."""
        return rsa.RSAPublicNumbers(PUBLIC_EXPONENT, self.p * self.q).public_key()

    def sign(self, message: bytes) -> bytes:
        """Sign with RSASSA-PSS, SHA-384, MGF1-SHA-384 and a salt of 48 bytes, deterministically.

        The salt is derived from key and message, so that generated files never change. Plain
        ``pow``: timing reveals nothing about a public key.

        Returns:
            as many bytes as the modulus has, big-endian.

        Spec: RFC 8017, sections 8.1.1 and 9.1.1.
        """
        salt = shake_256(_DOMAIN + b"PSS salt\0" + self.label.encode("ascii") + b"\0" + message).digest(SALT_BYTES)
        size = (self.p * self.q).bit_length() // 8
        encoded = int.from_bytes(_pss_encode(message, salt, size), "big")
        of_p = pow(encoded, pow(PUBLIC_EXPONENT, -1, self.p - 1), self.p)
        of_q = pow(encoded, pow(PUBLIC_EXPONENT, -1, self.q - 1), self.q)
        signature = of_q + self.q * ((of_p - of_q) * pow(self.q, -1, self.p) % self.p)
        return signature.to_bytes(size, "big")


def _pss_encode(message: bytes, salt: bytes, size: int) -> bytes:
    """Return EMSA-PSS-ENCODE for a modulus of so many whole bytes: the highest bit is zero."""
    digest = sha384(bytes(8) + sha384(message).digest() + salt).digest()
    block = (b"\x01" + salt).rjust(size - len(digest) - 1, b"\0")
    masked = bytes(a ^ b for a, b in zip(block, _mgf1(digest, len(block)), strict=True))
    return bytes([masked[0] & 0x7F]) + masked[1:] + digest + b"\xbc"


def _mgf1(seed: bytes, length: int) -> bytes:
    """Return MGF1 with SHA-384 (RFC 8017, appendix B.2.1)."""
    blocks = -(-length // sha384().digest_size)
    return b"".join(sha384(seed + index.to_bytes(4, "big")).digest() for index in range(blocks))[:length]


def prime_label(product: SnpProduct, role: CaRole, prime: str) -> str:
    """Return the label of a prime of an authority's key."""
    return f"RSA-{RSA_BITS} {role} {product} {prime}"


@lru_cache(maxsize=len(SnpProduct) * len(CaRole))
def simulated_ca_key(product: SnpProduct, role: CaRole) -> SimulatedRsaKey:
    """Return the key of the simulated ARK, ASK or ASVK of a product line."""
    p, q = (
        expand_prime_candidate(prime_label(product, role, prime), counter)
        for prime, counter in zip("pq", _COUNTERS[product, role], strict=True)
    )
    return SimulatedRsaKey(label=f"{role} {product}", p=p, q=q)


# -- ECDSA keys of chips and providers


def vcek_key(*, product: SnpProduct, hwid: bytes, tcb: SnpTcbVersion) -> ec.EllipticCurvePrivateKey:
    """Return the P-384 key of a simulated chip at a TCB.

    Args:
        product: the product line.
        hwid: 64 bytes, on Turin 8.
        tcb: TCB of the key; as in hardware, each TCB has its own.
    """
    return _p384_key(b"VCEK", product, hwid, tcb)


def vlek_key(*, product: SnpProduct, csp_id: str, tcb: SnpTcbVersion) -> ec.EllipticCurvePrivateKey:
    """Return the cloud provider's P-384 key from the simulated AMD for a TCB."""
    return _p384_key(b"VLEK", product, csp_id.encode("ascii"), tcb)


def public_key_info(key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey) -> bytes:
    """Return the DER SubjectPublicKeyInfo of a public key."""
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


@lru_cache(maxsize=512)
def _p384_key(kind: bytes, product: SnpProduct, owner: bytes, tcb: SnpTcbVersion) -> ec.EllipticCurvePrivateKey:
    seed = _DOMAIN + b"\0".join((b"P-384", kind, product.encode("ascii"), owner.hex().encode("ascii"), tcb.to_bytes()))
    scalar = 1 + int.from_bytes(shake_256(seed).digest(72), "big") % (_ORDER_P384 - 1)  # 192 spare bits: without bias
    return ec.derive_private_key(scalar, ec.SECP384R1())
