"""The signatures that a function verifies, and the time of their bare verification.

The interpreter reports every call of a built-in method, so that all checks are counted and cached results are not.
 Each is repeated with a fresh key of the same kind over a message as long as a report.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

__all__ = ["bare_work", "describe", "verifications"]

_MESSAGE = bytes(1024)
_CURVES: dict[str, type[ec.EllipticCurve]] = {"secp256r1": ec.SECP256R1, "secp384r1": ec.SECP384R1}


def verifications(work: Callable[[], object]) -> Counter[str]:
    """Run something, and return which signatures it verified in this thread, by the kind of key."""
    found: Counter[str] = Counter()

    def hook(frame: FrameType, event: str, argument: object) -> None:
        del frame
        if event == "c_call" and getattr(argument, "__name__", "") == "verify":
            kind = _kind(getattr(argument, "__self__", None))
            if kind is not None:
                found[kind] += 1

    sys.setprofile(hook)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def bare_work(kinds: Counter[str]) -> Callable[[], None]:
    """Return a function that makes these verifications and nothing else."""
    checks = [_check(kind) for kind in kinds.elements()]

    def work() -> None:
        for check in checks:
            check()

    return work


def describe(kinds: Counter[str]) -> str:
    """Return a description of the numbers of each kind."""
    return " + ".join(f"{number} {kind}" for kind, number in sorted(kinds.items())) or "none"


def _kind(key: object) -> str | None:
    match key:
        case ec.EllipticCurvePublicKey():
            return key.curve.name
        case rsa.RSAPublicKey():
            return f"rsa-{key.key_size}"
        case ed25519.Ed25519PublicKey():
            return "ed25519"
        case _:
            return None


def _check(kind: str) -> Callable[[], None]:
    if kind == "ed25519":
        signer = ed25519.Ed25519PrivateKey.generate()
        signed, verifier = signer.sign(_MESSAGE), signer.public_key()
        return lambda: verifier.verify(signed, _MESSAGE)
    if kind.startswith("rsa-"):
        pss = padding.PSS(mgf=padding.MGF1(hashes.SHA384()), salt_length=48)
        private = rsa.generate_private_key(65537, int(kind.removeprefix("rsa-")))
        signature, public = private.sign(_MESSAGE, pss, hashes.SHA384()), private.public_key()
        return lambda: public.verify(signature, _MESSAGE, pss, hashes.SHA384())
    scheme = ec.ECDSA(hashes.SHA384() if kind == "secp384r1" else hashes.SHA256())
    point = ec.generate_private_key(_CURVES[kind]())
    made, known = point.sign(_MESSAGE, scheme), point.public_key()
    return lambda: known.verify(made, _MESSAGE, scheme)
