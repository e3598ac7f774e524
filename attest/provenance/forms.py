"""Forms of the documents of Sigstore: closed, and with one spelling for one content.

The library's models accept several spellings of one number, byte string or time. What they write again has to be what
was given, so that two readers never see two documents.
"""

from __future__ import annotations

from sigstore_models.bundle.v1 import Bundle
from sigstore_models.trustroot.v1 import TrustedRoot

from attest.encoding import JsonValue, json_value, rfc3339
from attest.endorsements.x509 import parse_certificate
from attest.errors import ConfigurationError, EvidenceError

MAX_BUNDLE_BYTES = 1 << 20
MAX_TRUSTED_ROOT_BYTES = 1 << 20
ROOT_HINT = "give the trusted root that the signer's Sigstore instance publishes (trusted_root.json)"
_MAX_VALUES = 20_000
_MAX_REASON_CHARACTERS = 300
_TIMES = frozenset({"start", "end"})
_NEWEST = frozenset(
    {"application/vnd.dev.sigstore.bundle.v0.3+json", "application/vnd.dev.sigstore.bundle+json;version=0.3"}
)


def read_bundle(data: bytes) -> Bundle:
    """Read a bundle with one log entry, its proof and checkpoint, and certificates that can be read.

    Raises:
        EvidenceError: ``provenance-malformed``, or ``json-invalid``.
    """
    if len(data) > MAX_BUNDLE_BYTES:
        raise malformed(f"at most {MAX_BUNDLE_BYTES} bytes", "more")
    given = json_value(data, what="the bundle", most=_MAX_VALUES)
    try:
        found = Bundle.from_json(data)
        _require_spelling(given, found)
        _require_parts(found)
    except (EvidenceError, ValueError) as exc:
        raise malformed("a bundle of Sigstore with one log entry, proof and checkpoint", reason(exc)) from exc
    return found


def _require_parts(bundle: Bundle) -> None:
    material = bundle.verification_material
    if len(material.tlog_entries) != 1:
        raise ValueError(f"{len(material.tlog_entries)} log entries")
    if material.tlog_entries[0].inclusion_proof.checkpoint is None:
        raise ValueError("an inclusion proof without a checkpoint")
    chain = material.x509_certificate_chain
    older = chain.certificates if chain else []
    certificates = [material.certificate] if bundle.media_type in _NEWEST else older
    if not certificates:
        raise ValueError("no certificate")
    for one in certificates:
        if one is None:
            raise ValueError("no certificate")
        parse_certificate(one.raw_bytes)


def read_trusted_root(data: bytes) -> TrustedRoot:
    """Read trust material.

    Raises:
        ConfigurationError: ``provenance-root-invalid``.
    """
    try:
        if len(data) > MAX_TRUSTED_ROOT_BYTES:
            raise ValueError(f"more than {MAX_TRUSTED_ROOT_BYTES} bytes")  # noqa: TRY301  one translation for all
        given = json_value(data, what="the trusted root", most=_MAX_VALUES)
        found = TrustedRoot.from_json(data)
        _require_spelling(given, found)
    except (EvidenceError, ValueError) as exc:
        raise root_invalid(exc) from exc
    return found


def _require_spelling(given: JsonValue, found: Bundle | TrustedRoot) -> None:
    if not _is_same(given, json_value(found.to_json().encode(), what="what was read")):
        raise ValueError("a value that has another spelling, or that is null")


def _is_same(given: JsonValue, written: JsonValue, name: str = "") -> bool:
    """Compare what was given with what is written again; times by their moments."""
    if isinstance(given, dict) and isinstance(written, dict):
        return given.keys() == written.keys() and all(_is_same(given[key], written[key], key) for key in given)
    if isinstance(given, list) and isinstance(written, list):
        return all(_is_same(*pair) for pair in zip(given, written, strict=True))
    if name in _TIMES and isinstance(given, str) and isinstance(written, str):
        return rfc3339(given, what=name) == rfc3339(written, what=name)
    return given == written


def reason(exc: Exception) -> str:
    """Return the library's words on one line, cut: they can quote the bundle."""
    words = " ".join(str(exc).split()) or type(exc).__name__
    return "".join(c if c.isprintable() else "?" for c in words[:_MAX_REASON_CHARACTERS])


def malformed(expected: str, got: str) -> EvidenceError:
    """Make the refusal of a bundle that cannot be read."""
    return EvidenceError(
        f"this is no bundle that can be read: {got}",
        code="provenance-malformed",
        expected=expected,
        got=got,
        hint="give the bundle as the builder published it",
    )


def root_invalid(exc: Exception) -> ConfigurationError:
    """Make the refusal of trust material that cannot be read."""
    return ConfigurationError(
        f"the trusted root cannot be read: {reason(exc)}",
        code="provenance-root-invalid",
        expected="a TrustedRoot of Sigstore in JSON",
        got=reason(exc),
        hint=ROOT_HINT,
    )
