"""The vault's signed answer to a release, with every check that a client must make before it uses the key.

Spec: specs/azure-skr.md, sections 9, 10 and 14.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_der_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from attest.encoding import JsonValue, base64_bytes, base64url_bytes, json_value
from attest.errors import AttestError, BindingError, ChainError, UnsupportedError, VerificationError
from attest.policy.foreign.skr import SkrPolicy, canonical_bytes, parse_skr
from attest.release.opened_key import OpenedKey
from attest.results import verify_token
from attest.results.token_roots import certified_key
from attest.skr.addresses import VaultKey
from attest.skr.encryption_key import ENCRYPTION, EncryptionKey

_WHAT: Final = "the vault's answer"
_CLAUSE: Final = "docs/key-clients.md"
_ALGORITHMS: Final = frozenset({"RS256"})
_HEADER: Final = frozenset({"x5c", "x5t", "x5t#S256"})
_SCHEMA: Final = "1.0"
_WRAPPED_DIRECTLY: Final = "dir"
_CURVES: Final[Mapping[str, type[ec.EllipticCurve]]] = {
    "P-256": ec.SECP256R1,
    "P-384": ec.SECP384R1,
    "P-521": ec.SECP521R1,
    "P-256K": ec.SECP256K1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseTerms:
    """The release that an answer must be of.

    Attributes:
        nonce: text in the request.
        roots: issuers of the certificates with which vaults sign.
        policy: expected release policy; None accepts any.
    """

    key: VaultKey
    nonce: str
    roots: tuple[x509.Certificate, ...]
    policy: SkrPolicy | None
    at: datetime


class SkrKey(OpenedKey):
    """A key of a vault in the clear: PKCS#8 in DER for ``RSA`` and ``EC``, raw bytes for ``oct``.

    Attributes:
        address: of the released version.
        kty: ``RSA``, ``EC`` or ``oct``.
    """

    __slots__ = ("address", "kty")

    def __init__(self, name: str, buffer: bytearray, *, address: VaultKey, kty: str) -> None:
        super().__init__(name, buffer)
        self.address = address
        self.kty = kty


def open_release(value: str, *, terms: ReleaseTerms, kek: EncryptionKey) -> SkrKey:
    """Check an answer, and open the key.

    Raises:
        ChainError: ``token-chain-invalid``: the signer's chain; ``skr-signer-mismatch``: a certificate of another name
            or use.
        SignatureError: ``token-algorithm-refused`` or ``token-signature-invalid``.
        BindingError: ``skr-answer-mismatch``: an answer to another request, for another key, or encrypted for another.
        VerificationError: ``skr-not-opened``; ``skr-public-key-mismatch``: another key than the vault states;
            ``skr-policy-mismatch``: a release policy that is not the expected one.
        UnsupportedError: ``skr-key-type-unsupported``.
        EvidenceError: the answer is malformed.
    """
    # (1) Signed with the one algorithm, by a certificate of the vault's name under a configured root.
    try:
        signer = certified_key(value, terms.roots, at=terms.at)
    except ChainError as exc:
        exc.hint = "--vault-roots: name the root under which this vault signs; its operator can give it to you"
        raise
    if signer is None:
        raise ChainError(
            f"{_WHAT} has no chain of its signer",
            code="token-chain-invalid",
            field="x5c",
            expected="certificates up to a configured root",
            got="none",
            clause=_CLAUSE,
        )
    signed = verify_token(
        value, keys=(signer,), algorithms=_ALGORITHMS, what=_WHAT, ignored_header=_HEADER, by_kid=False
    )
    require_name(_leaf(value), terms.key.host)
    # (2) An answer to this request.
    answer = _Answer(signed.claims)
    answer.require("request.nonce", terms.nonce)
    answer.require("request.enc", ENCRYPTION)
    _require_key("request.kid", terms.key, answer.text("request.kid"), exact=True)
    found = _require_key("response.key.key.kid", terms.key, answer.text("response.key.key.kid"), exact=False)
    # (3) Encrypted to the key of this release.
    hsm = _Answer(_inner(answer.text("response.key.key.key_hsm")), at="key_hsm")
    hsm.require("schema_version", _SCHEMA)
    hsm.require("header.alg", _WRAPPED_DIRECTLY)
    hsm.require("header.enc", ENCRYPTION)
    hsm.require("header.kid", kek.kid)
    # (4) The expected release policy.
    if terms.policy is not None:
        _require_policy(terms.policy, answer.text("response.key.release_policy.data"))
    # (5) The key whose public half the vault states.
    kty = answer.text("response.key.key.kty").removesuffix("-HSM")
    opened = SkrKey(
        str(terms.key),
        kek.unwrap(base64url_bytes(hsm.text("ciphertext"), what="key_hsm.ciphertext")),
        address=found,
        kty=kty,
    )
    try:
        _require_public_half(opened, kty, answer)
    except BaseException:
        opened.close()
        raise
    return opened


class _Answer:
    """Members of an answer by dotted paths."""

    def __init__(self, document: JsonValue | Mapping[str, JsonValue], *, at: str = "") -> None:
        self._document = document
        self._at = f"{at}." if at else ""

    def value(self, path: str) -> JsonValue:
        """Return a member, or None."""
        found: JsonValue | Mapping[str, JsonValue] = self._document
        for name in path.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        return found if not isinstance(found, Mapping) else dict(found)

    def text(self, path: str) -> str:
        """Return a member that is text."""
        found = self.value(path)
        if not isinstance(found, str):
            raise _mismatch(self._at + path, "text", found)
        return found

    def require(self, path: str, expected: str) -> None:
        """Require a text."""
        found = self.text(path)
        if not hmac.compare_digest(found.encode(), expected.encode()):
            raise _mismatch(self._at + path, expected, found)


def _leaf(value: str) -> x509.Certificate:
    """Return the signer's certificate, which ``certified_key`` accepted."""
    header = json_value(base64url_bytes(value.partition(".")[0], what=_WHAT), what=_WHAT)
    chain = header["x5c"] if isinstance(header, dict) else None
    der = base64_bytes(str(chain[0]), what="x5c") if isinstance(chain, list) else b""
    return x509.load_der_x509_certificate(der)


def require_name(leaf: x509.Certificate, host: str) -> None:
    """Require a certificate of a server of this name; ``*`` stands for the first label alone."""
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        usage = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        stated = [name.lower() for name in names.get_values_for_type(x509.DNSName)]
    except x509.ExtensionNotFound:
        stated, usage = [], x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    _, _, parent = host.partition(".")
    wanted = {host, f"*.{parent}"} if "." in parent else {host}
    if not wanted & set(stated) or ExtendedKeyUsageOID.SERVER_AUTH not in usage:
        raise ChainError(
            f"{_WHAT} is signed by a certificate of another name or use",
            code="skr-signer-mismatch",
            field="x5c[0]",
            expected=f"a certificate of the server {host}",
            got=", ".join(stated)[:200] or "no name of a server",
            clause=_CLAUSE,
        )


def _require_key(path: str, wanted: VaultKey, stated: str, *, exact: bool) -> VaultKey:
    """Require the id of the key; of its answer, with any version where none was asked for."""
    try:
        found = VaultKey.parse(stated)
    except AttestError as exc:
        raise _mismatch(path, str(wanted), stated) from exc
    if not wanted.covers(found) or (exact and found.version != wanted.version):
        raise _mismatch(path, str(wanted), stated)
    return found


def _inner(text: str) -> JsonValue:
    return json_value(base64url_bytes(text, what="key_hsm"), what="key_hsm")


def _require_policy(expected: SkrPolicy, data: str) -> None:
    """Compare policies as they are read: vaults write them anew."""
    try:
        found = canonical_bytes(parse_skr(base64url_bytes(data, what="release_policy.data"), extended=True))
    except AttestError:
        found = b""
    if found != canonical_bytes(expected):
        raise VerificationError(
            "the key's release policy is not the expected one",
            code="skr-policy-mismatch",
            field="response.key.release_policy",
            expected=canonical_bytes(expected).decode()[:200],
            got=found.decode()[:200] or "no policy that can be read",
            clause=_CLAUSE,
            hint="an administrator may have changed the policy: compare it before you use the key",
        )


def _require_public_half(opened: SkrKey, kty: str, answer: _Answer) -> None:
    match kty:
        case "oct":
            return
        case "RSA":
            names = ("n", "e")
        case "EC":
            names = ("x", "y")
        case _:
            raise UnsupportedError(
                f"keys of type {kty[:40]!r} are not known",
                code="skr-key-type-unsupported",
                field="response.key.key.kty",
                expected="RSA, EC or oct, with or without -HSM",
                got=kty[:40],
            )
    stated = tuple(_number(answer, f"response.key.key.{name}") for name in names)
    if _public_numbers(opened, answer if kty == "EC" else None) != stated:
        raise VerificationError(
            "the released key has another public half than the vault states",
            code="skr-public-key-mismatch",
            field=f"response.key.key.{names[0]}",
            expected="the public half of the released key",
            got="another one",
            clause=_CLAUSE,
        )


def _number(answer: _Answer, path: str) -> int:
    return int.from_bytes(base64url_bytes(answer.text(path), what=path), "big")


def _public_numbers(opened: SkrKey, curve_of: _Answer | None) -> tuple[int, int] | None:
    """Return the public numbers of the released key; None where it is of another type or curve."""
    try:
        private = load_der_private_key(opened.material, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    if curve_of is None:
        if not isinstance(private, rsa.RSAPrivateKey):
            return None
        numbers = private.public_key().public_numbers()
        return numbers.n, numbers.e
    curve = _CURVES.get(curve_of.text("response.key.key.crv"))
    if not isinstance(private, ec.EllipticCurvePrivateKey) or curve is None or not isinstance(private.curve, curve):
        return None
    point = private.public_key().public_numbers()
    return point.x, point.y


def _mismatch(field: str, expected: str, got: JsonValue) -> BindingError:
    return BindingError(
        f"{_WHAT} is not of this release: {field}",
        code="skr-answer-mismatch",
        field=field,
        expected=expected[:200],
        got=str(got)[:200],
        clause=_CLAUSE,
    )
