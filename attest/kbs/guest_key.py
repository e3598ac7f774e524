"""The guest's key pair of one handshake, and the answers that are encrypted to it.

The protected header of an answer is accepted in one form: the algorithm of this key, ``A256GCM``, and for a curve the
ephemeral key. Nothing in it selects another algorithm, a compression or a party.

Spec: RFC 7516; RFC 7518, sections 4.3 and 4.6; specs/kbs-protocol.md, sections 7 and 15.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NoReturn, cast, get_args

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap

from attest.context_managers import ClosedOnExit
from attest.encoding import JsonValue, base64url_bytes, json_value
from attest.errors import AttestError, VerificationError
from attest.kbs.key_agreement import (
    CONTENT_ENCRYPTION,
    CONTENT_KEY_BYTES,
    IV_BYTES,
    OAEP,
    TAG_BYTES,
    key_encryption_key,
)
from attest.kbs.tee_key import CURVES, EC_ALGORITHM, RSA_ALGORITHM, coordinate, read_tee_key
from attest.results import rsa_jwk

KeyKind = Literal["p256", "p521", "rsa"]
KEY_KINDS: Final[tuple[KeyKind, ...]] = get_args(KeyKind)
RSA_BITS: Final = 3072
_CURVES: Final = {"p256": "P-256", "p521": "P-521"}
_MEMBERS: Final = frozenset({"protected", "encrypted_key", "iv", "ciphertext", "tag"})
_EPHEMERAL: Final = frozenset({"crv", "kty", "x", "y"})
_CLAUSE: Final = "RFC 7516, section 7.2"


class GuestKey(ClosedOnExit):
    """A key pair for one handshake. The private key never leaves this object.

    Attributes:
        jwk: the public key, as evidence commits to it.
    """

    def __init__(self, private: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
        self._private: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None = private
        self.jwk: dict[str, str] = _jwk(private.public_key())

    @staticmethod
    def generate(kind: KeyKind = "p256") -> GuestKey:
        """Generate a key pair from the operating system's randomness."""
        if kind == "rsa":
            return GuestKey(rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS))
        return GuestKey(ec.generate_private_key(CURVES[_CURVES[kind]]))

    def open(self, answer: bytes) -> bytearray:
        """Open an answer: a JWE in flattened JSON.

        Raises:
            VerificationError: ``kbs-answer-malformed``: another form, algorithm or key than this handshake has; or
                ``kbs-answer-not-opened``: encrypted to another key, or altered.
        """
        texts = _texts(answer)
        parts = _decoded(texts)
        content_key = self._content_key(_header(parts["protected"]), parts["encrypted_key"])
        sealed = parts["ciphertext"] + parts["tag"]
        try:
            opened = AESGCM(content_key).decrypt(parts["iv"], sealed, texts["protected"].encode())
        except InvalidTag as exc:
            raise _not_opened() from exc
        return bytearray(opened)

    def close(self) -> None:
        """Forget the private key. The library frees its memory."""
        self._private = None

    def _content_key(self, header: Mapping[str, JsonValue], wrapped: bytes) -> bytes:
        private = self._private
        if private is None:
            raise ValueError("this key was closed")
        try:
            if isinstance(private, rsa.RSAPrivateKey):
                _require_header(header, RSA_ALGORITHM, ("alg", "enc"))
                found = private.decrypt(wrapped, OAEP)
            else:
                _require_header(header, EC_ALGORITHM, ("alg", "enc", "epk"))
                shared = private.exchange(ec.ECDH(), self._ephemeral(header["epk"]))
                found = aes_key_unwrap(key_encryption_key(shared), wrapped)
        except (InvalidUnwrap, ValueError) as exc:
            raise _not_opened() from exc
        if len(found) != CONTENT_KEY_BYTES:
            raise _not_opened()
        return found

    def _ephemeral(self, value: JsonValue) -> ec.EllipticCurvePublicKey:
        """Return the sender's ephemeral key: a point of this key's curve, and not this key itself."""
        members = value if isinstance(value, dict) else {}
        if set(members) != _EPHEMERAL or members["crv"] != self.jwk["crv"] or members["kty"] != "EC":
            raise _malformed("protected.epk", f"a key of {self.jwk['crv']} with crv, kty, x and y", "another object")
        if (members["x"], members["y"]) == (self.jwk["x"], self.jwk["y"]):
            raise _malformed("protected.epk", "a key of the sender", "the guest's own key")
        try:
            found = read_tee_key({**members, "alg": EC_ALGORITHM}).public
        except AttestError as exc:
            raise _malformed("protected.epk", "a point of the curve", "other values") from exc
        return cast("ec.EllipticCurvePublicKey", found)

    def __repr__(self) -> str:
        return f"GuestKey(alg={self.jwk['alg']!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a GuestKey does not leave its process")


def _jwk(public: ec.EllipticCurvePublicKey | rsa.RSAPublicKey) -> dict[str, str]:
    if isinstance(public, rsa.RSAPublicKey):
        return {**rsa_jwk(public), "alg": RSA_ALGORITHM}
    point, curve = public.public_numbers(), public.curve
    name = next(name for name, known in CURVES.items() if known.name == curve.name)
    x, y = (coordinate(number, curve) for number in (point.x, point.y))
    return {"kty": "EC", "crv": name, "alg": EC_ALGORITHM, "x": x, "y": y}


def _texts(answer: bytes) -> dict[str, str]:
    try:
        document = json_value(answer, what="answer")
    except AttestError as exc:
        raise _malformed("answer", "JSON", "other bytes") from exc
    members = document if isinstance(document, dict) else {}
    texts = {name: value for name, value in members.items() if isinstance(value, str)}
    if set(members) != _MEMBERS or len(texts) != len(members):
        raise _malformed("answer", f"the members {', '.join(sorted(_MEMBERS))}, each text", "another document")
    return texts


def _decoded(texts: Mapping[str, str]) -> dict[str, bytes]:
    try:
        parts = {name: base64url_bytes(text, what=name) for name, text in texts.items()}
    except AttestError as exc:
        raise _malformed(exc.field or "answer", "base64url without padding", "other text") from exc
    for name, length in (("iv", IV_BYTES), ("tag", TAG_BYTES)):
        if len(parts[name]) != length:
            raise _malformed(name, f"{length} bytes", f"{len(parts[name])} bytes")
    return parts


def _header(protected: bytes) -> Mapping[str, JsonValue]:
    try:
        header = json_value(protected, what="protected")
    except AttestError as exc:
        raise _malformed("protected", "JSON", "other bytes") from exc
    return header if isinstance(header, dict) else {}


def _require_header(header: Mapping[str, JsonValue], algorithm: str, names: tuple[str, ...]) -> None:
    if tuple(sorted(header)) != names:
        raise _malformed("protected", f"the members {', '.join(names)}", ", ".join(header)[:80])
    for name, expected in (("alg", algorithm), ("enc", CONTENT_ENCRYPTION)):
        if header[name] != expected:
            raise _malformed(f"protected.{name}", expected, str(header[name])[:80])


def _malformed(field: str, expected: str, got: str) -> VerificationError:
    return VerificationError(
        f"the encrypted answer has another form than this client accepts: {field}: expected {expected}",
        code="kbs-answer-malformed",
        field=field,
        expected=expected,
        got=got,
        clause=_CLAUSE,
    )


def _not_opened() -> VerificationError:
    return VerificationError(
        "the answer does not open: it is encrypted to another key, or it was altered",
        code="kbs-answer-not-opened",
        clause=_CLAUSE,
    )
