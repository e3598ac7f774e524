"""Signatures over models: the key method of OpenSSF Model Signing 1.0, verifiable with its tools.

::

    model.sig   a Sigstore bundle v0.3 in JSON: the hint of a public key, and a DSSE envelope
    envelope    an in-toto Statement v1, and signatures over  "DSSEv1" SP len(type) SP type SP len(payload) SP payload
    statement   subject: name and root; predicate: resources (name, sha256) sorted by name, and the method of listing
    root        SHA-256 over the digests of the resources, in their order

Verification uses the bytes as received. The hint only selects among keys that the caller trusts.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, cast

import rfc8785
from cryptography.hazmat.primitives.asymmetric import ec

from attest.encoding import JsonValue, base64_bytes, hex_bytes, json_value
from attest.errors import EvidenceError, SignatureError, UnsupportedError
from attest.sealed.names import MAX_FILES, names_problem
from attest.sealed.signing_keys import is_signed, key_hint, raw_signature

SIGNATURE_NAME: Final = "model.sig"
MAX_BUNDLE_BYTES: Final = 64 * 1024 * 1024
MAX_SIGNATURES: Final = 16
IGNORED: Final = (".git", ".gitattributes", ".github", ".gitignore", SIGNATURE_NAME)
"""Top-level paths that the format omits: the signature, and git's files."""

_BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
_PAYLOAD = "application/vnd.in-toto+json"
_STATEMENT = "https://in-toto.io/Statement/v1"
_PREDICATE = "https://model_signing/signature/v1.0"
_Members = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResource:
    """A file of a model: its path, and the SHA-256 of its bytes."""

    name: str
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedModel:
    """A model's list with a trusted signature, made by ``verify_model`` alone.

    Attributes:
        name: the signer's name of the model, as information.
        root: SHA-256 over all digests.
        resources: the files, in the order of their names.
        ignored: paths that the signer omitted, with everything below.
        key: hint of the signer's key.
    """

    name: str
    root: bytes
    resources: tuple[ModelResource, ...]
    ignored: tuple[str, ...]
    key: str

    def is_ignored(self, name: str) -> bool:
        """Return whether the signer omitted a file of this name."""
        return any(name == path or name.startswith(f"{path}/") for path in self.ignored)


def sign_model(
    resources: Iterable[ModelResource],
    *,
    name: str,
    signer: ec.EllipticCurvePrivateKey,
    ignored: tuple[str, ...] = IGNORED,
) -> bytes:
    """Return a signature (JSON) over the files of a model, in any order, by a P-384 or P-256 key; deterministic.

    Raises:
        ValueError: an unsafe name, a repeated name, or too many names.
    """
    ordered = sorted(resources, key=lambda one: one.name)
    problem = _listing_problem(ordered, ignored)
    if problem is not None:
        raise ValueError(problem)
    payload = _payload(ordered, name=name, ignored=ignored)
    bundle = {
        "mediaType": _BUNDLE,
        "verificationMaterial": {"publicKey": {"hint": key_hint(signer.public_key())}, "tlogEntries": []},
        "dsseEnvelope": {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": _PAYLOAD,
            "signatures": [{"sig": base64.b64encode(raw_signature(signer, _signed_bytes(payload))).decode()}],
        },
    }
    return rfc8785.dumps(cast("dict[str, Any]", bundle))  # Any: JSON


def _payload(listed: Collection[ModelResource], *, name: str, ignored: tuple[str, ...]) -> bytes:
    statement = {
        "_type": _STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": _root(listed).hex()}}],
        "predicateType": _PREDICATE,
        "predicate": {
            "resources": [{"name": one.name, "algorithm": "sha256", "digest": one.digest.hex()} for one in listed],
            "serialization": {
                "method": "files",
                "hash_type": "sha256",
                "allow_symlinks": False,
                "ignore_paths": list(ignored),
            },
        },
    }
    return rfc8785.dumps(cast("dict[str, Any]", statement))  # Any: JSON


def _root(resources: Iterable[ModelResource]) -> bytes:
    return sha256(b"".join(one.digest for one in resources)).digest()


def _signed_bytes(payload: bytes) -> bytes:
    return b"DSSEv1 %d %s %d %s" % (len(_PAYLOAD), _PAYLOAD.encode(), len(payload), payload)


def verify_model(bundle: bytes, *, trusted: Collection[ec.EllipticCurvePublicKey]) -> VerifiedModel:
    """Verify a signature over a list of files, without the files.

    The bundle is not trusted yet. An empty collection of signers accepts nothing.

    Raises:
        EvidenceError: ``model-signature-malformed``, ``json-invalid``, ``base64-invalid`` or ``hex-invalid``.
        UnsupportedError: ``model-signature-unsupported``: another method, hash or kind of signature.
        SignatureError: ``model-signature-untrusted``, or ``model-signature-invalid``.
    """
    # (1) The bundle: one strict JSON document of exactly these members.
    hint, payload, signatures = _read_bundle(bundle)
    # (2) A trusted key, selected by the hint if there is one.
    keys = {key_hint(key): key for key in trusted}
    if hint is not None and hint not in keys:
        raise SignatureError(
            "the model is signed by a key that is not trusted here",
            code="model-signature-untrusted",
            expected=", ".join(sorted(keys)) or "no key at all",
            got=hint[:64],
            hint="give the public key of the model's owner; the model itself cannot establish trust",
        )
    # (3) A signature of that key over the payload as received: detects every change of the list.
    chosen = keys if hint is None else {hint: keys[hint]}
    message = _signed_bytes(payload)
    signers = [one for one, key in chosen.items() if any(is_signed(key, sig, message) for sig in signatures)]
    if not signers:
        raise SignatureError(
            "the model's signature does not verify",
            code="model-signature-invalid",
            expected=f"a signature of {', '.join(sorted(chosen)) or 'a trusted key'}",
            hint="the signature was changed, or made by another key: get the model again from its owner",
        )
    # (4) Only then is the list parsed.
    return _read_statement(payload, key=signers[0])


def _read_bundle(bundle: bytes) -> tuple[str | None, bytes, tuple[bytes, ...]]:
    """Return hint, payload and signatures."""
    if len(bundle) > MAX_BUNDLE_BYTES:
        raise _malformed("bundle", f"at most {MAX_BUNDLE_BYTES} bytes", "more")
    top = _object(
        json_value(bundle, what="model signature"), "bundle", {"mediaType", "verificationMaterial", "dsseEnvelope"}
    )
    if top["mediaType"] != _BUNDLE:
        raise _unsupported("mediaType", _BUNDLE, top["mediaType"])
    hint = _read_material(top["verificationMaterial"])
    envelope = _object(top["dsseEnvelope"], "dsseEnvelope", {"payload", "payloadType", "signatures"})
    if envelope["payloadType"] != _PAYLOAD:
        raise _unsupported("payloadType", _PAYLOAD, envelope["payloadType"])
    payload = base64_bytes(_text(envelope["payload"], "payload"), what="payload")
    listed = envelope["signatures"]
    if not isinstance(listed, list) or not 0 < len(listed) <= MAX_SIGNATURES:
        raise _malformed("signatures", f"1 to {MAX_SIGNATURES}", "none, or more")
    return hint, payload, tuple(map(_read_signature, listed))


def _read_material(value: JsonValue) -> str | None:
    if isinstance(value, dict) and not {"certificate", "x509CertificateChain"}.isdisjoint(value):
        raise _unsupported("verificationMaterial", "a public key", "certificates")
    material = _object(value, "verificationMaterial", {"publicKey"}, optional={"tlogEntries"})
    if material.get("tlogEntries", []) != []:
        raise _unsupported("tlogEntries", "none", "some")
    key = _object(material["publicKey"], "publicKey", set(), optional={"hint"})
    return _text(key["hint"], "hint") if "hint" in key else None


def _read_signature(value: JsonValue) -> bytes:
    one = _object(value, "signatures[]", {"sig"}, optional={"keyid"})
    if one.get("keyid", "") != "":
        raise _malformed("keyid", "nothing", "a key id")
    return base64_bytes(_text(one["sig"], "sig"), what="sig")


def _read_statement(payload: bytes, *, key: str) -> VerifiedModel:
    """Parse the signed statement. Members of later versions are ignored, as the format requires."""
    members = {"_type", "subject", "predicateType", "predicate"}
    top = _object(json_value(payload, what="statement"), "statement", members)
    for name, expected in (("_type", _STATEMENT), ("predicateType", _PREDICATE)):
        if top[name] != expected:
            raise _unsupported(name, expected, top[name])
    predicate = _some(top["predicate"], "predicate", {"resources", "serialization"})
    ignored = _read_serialization(predicate["serialization"])
    listed = predicate["resources"]
    if not isinstance(listed, list) or len(listed) > MAX_FILES:
        raise _malformed("resources", f"at most {MAX_FILES} of them", "more, or no list")
    resources = tuple(_read_resource(one, f"resources[{at}]") for at, one in enumerate(listed))
    problem = _listing_problem(resources, ignored)
    if problem is not None:
        raise _malformed("resources", "safe relative names, each once", problem)
    name, root = _read_subject(top["subject"])
    if root != _root(resources):
        raise _malformed("subject", f"root {_root(resources).hex()}", root.hex())
    return VerifiedModel(name=name, root=root, resources=resources, ignored=ignored, key=key)


def _read_subject(value: JsonValue) -> tuple[str, bytes]:
    if not isinstance(value, list) or len(value) != 1:
        raise _malformed("subject", "exactly one", "none, or several")
    subject = _some(value[0], "subject", {"name", "digest"})
    digests = _some(subject["digest"], "subject.digest", {"sha256"})
    root = hex_bytes(_text(digests["sha256"], "subject.digest"), what="subject.digest", length=32)
    return _text(subject["name"], "subject.name"), root


def _read_serialization(value: JsonValue) -> tuple[str, ...]:
    how = _some(value, "serialization", {"method", "hash_type"})
    for name, expected in (("method", "files"), ("hash_type", "sha256")):
        if how[name] != expected:
            raise _unsupported(f"serialization.{name}", expected, how[name])
    if how.get("allow_symlinks", False) is not False:
        raise _unsupported("serialization.allow_symlinks", "false", how["allow_symlinks"])
    paths = how.get("ignore_paths", [])
    if not isinstance(paths, list) or len(paths) > MAX_FILES:
        raise _malformed("serialization.ignore_paths", "a list of paths", "something else")
    return tuple(_text(path, "serialization.ignore_paths") for path in paths)


def _read_resource(value: JsonValue, where: str) -> ModelResource:
    one = _some(value, where, {"name", "algorithm", "digest"})
    if one["algorithm"] != "sha256":
        raise _unsupported(f"{where}.algorithm", "sha256", one["algorithm"])
    digest = hex_bytes(_text(one["digest"], where), what=where, length=32)
    return ModelResource(name=_text(one["name"], where), digest=digest)


def _listing_problem(resources: Collection[ModelResource], ignored: tuple[str, ...]) -> str | None:
    if len(resources) > MAX_FILES:
        return f"more than {MAX_FILES} files"
    tops = set(ignored)
    for one in resources:
        parts = one.name.split("/")
        if any("/".join(parts[:length]) in tops for length in range(1, len(parts) + 1)):
            return f"{one.name[:200]!r} is both listed and ignored"
    return names_problem(one.name for one in resources)


def _object(value: JsonValue, where: str, names: set[str], *, optional: Collection[str] = ()) -> _Members:
    members = _some(value, where, names)
    unknown = sorted(members.keys() - names - set(optional))
    if unknown:
        raise _malformed(where, f"no other member than {', '.join(sorted(names))}", unknown[0][:80])
    return members


def _some(value: JsonValue, where: str, names: set[str]) -> _Members:
    if not isinstance(value, dict):
        raise _malformed(where, "an object", "something else")
    missing = sorted(names - value.keys())
    if missing:
        raise _malformed(where, f"a member {missing[0]}", "none")
    return value


def _text(value: JsonValue, where: str) -> str:
    if not isinstance(value, str):
        raise _malformed(where, "text", "something else")
    return value


def _malformed(field: str, expected: str, got: str) -> EvidenceError:
    message = f"model signature: {field}: expected {expected}, got {got}"
    return EvidenceError(message, code="model-signature-malformed", field=field, expected=expected, got=got)


def _unsupported(field: str, expected: str, got: JsonValue) -> UnsupportedError:
    return UnsupportedError(
        f"model signature: {field}: only {expected} is verified here",
        code="model-signature-unsupported",
        field=field,
        expected=expected,
        got=str(got)[:80],
    )
