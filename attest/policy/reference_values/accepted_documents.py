"""The documents of reference values that a policy accepts, and the values of them that count.

Names must not collide; a withdrawn value counts nowhere, whichever document has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from attest.encoding import JsonValue
from attest.errors import ConfigurationError
from attest.policy.decoder import hex_of, integer, key, list_of, record_of, refuse, text
from attest.policy.reference_values.reference_documents import DIGEST_BYTES, MAX_VERSION, ReferenceDocument
from attest.policy.references import IncompleteReferences, ReferenceValues


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedDocument:
    """One row of a policy's ``references``: a document that it accepts.

    Attributes:
        sha256: its digest; or None where ``signers`` are stated.
        signers: keys of which ``at_least`` must have signed it.
        minimum_version: the lowest version that is accepted, so that an old one with its signature is not.
    """

    document: str = field(metadata=key(text))
    sha256: bytes | None = field(default=None, metadata=key(hex_of(DIGEST_BYTES)))
    signers: tuple[bytes, ...] = field(default=(), metadata=key(list_of(hex_of(DIGEST_BYTES))))
    at_least: int = field(default=1, metadata=key(integer(1, 64)))
    minimum_version: int = field(default=1, metadata=key(integer(1, MAX_VERSION)))


def decode_accepted_document(value: JsonValue, path: str) -> AcceptedDocument:
    """Read one row of a policy's ``references``: ``list_of(decode_accepted_document)``."""
    found = record_of(AcceptedDocument)(value, path)
    if (found.sha256 is None) == (not found.signers):
        raise refuse(path, "either sha256 or signers", "both" if found.signers else "neither")
    if found.at_least > len(set(found.signers) or (0,)):
        raise refuse(f"{path}.at_least", f"at most {len(set(found.signers))}, the number of signers", found.at_least)
    return found


def merge_references(
    own: Mapping[str, ReferenceValues],
    accepted: Iterable[AcceptedDocument],
    documents: Mapping[str, ReferenceDocument],
) -> dict[str, ReferenceValues]:
    """Return the values that a policy may use: its own, and those of the documents that it accepts.

    A document that the policy does not name has no effect, its revocations included.

    Raises:
        ConfigurationError: ``references-missing``, ``references-not-accepted``, ``references-collide`` or
            ``references-revoked``.
    """
    merged, withdrawn = _together(own, [accept_document(row, documents) for row in accepted])
    return {name: _without(name, reference, withdrawn) for name, reference in merged.items()}


def merge_at_hand(
    own: Mapping[str, ReferenceValues],
    accepted: Iterable[AcceptedDocument],
    documents: Mapping[str, ReferenceDocument],
) -> IncompleteReferences:
    """Return the values of a policy from its available documents, for inspection; arguments as ``merge_references``.

    Missing and unaccepted documents are left out. Revoked values stay, so that they can be reported.

    Raises:
        ConfigurationError: ``references-collide``.
    """
    taken: list[ReferenceDocument] = []
    for row in accepted:
        with suppress(ConfigurationError):
            taken.append(accept_document(row, documents))
    return IncompleteReferences(_together(own, taken)[0])


def _together(
    own: Mapping[str, ReferenceValues], taken: Iterable[ReferenceDocument]
) -> tuple[dict[str, ReferenceValues], dict[bytes, str]]:
    """Return all values by name, and the revoked ones with the reasons."""
    merged, withdrawn = dict(own), dict[bytes, str]()
    origins = dict.fromkeys(own, "the policy itself")
    for document in taken:
        for name, entry in document.entries.items():
            if name in merged:
                raise _refused("collide", f"{name!r} is defined in {origins[name]} and in document {document.name!r}")
            origins[name] = f"document {document.name!r}"
            merged[name] = ReferenceValues(
                values=entry.values,
                origin=f"{document.name} version {document.version}: {entry.origin or document.origin}",
                expires=document.end_of(entry),
                document=document.name,
            )
        withdrawn |= {one.value: one.reason for one in document.revoked}
    return merged, withdrawn


def accept_document(row: AcceptedDocument, documents: Mapping[str, ReferenceDocument]) -> ReferenceDocument:
    """Return the document that a row of a policy's ``references`` accepts.

    Raises:
        ConfigurationError: ``references-missing`` or ``references-not-accepted``.
    """
    document = documents.get(row.document)
    if document is None:
        raise _refused("missing", f"the policy needs document {row.document!r}, which was not given")
    if document.name != row.document:
        raise _refused("missing", f"the document given as {row.document!r} has the name {document.name!r}")
    if row.sha256 is not None and row.sha256 != document.digest:
        raise _refused(
            "not-accepted",
            f"document {row.document!r} is not the one that the policy names",
            expected=row.sha256.hex(),
            got=document.digest.hex(),
        )
    held = document.signers & set(row.signers)
    if row.sha256 is None and len(held) < row.at_least:
        raise _refused(
            "not-accepted",
            f"document {row.document!r} is not signed by the signers that the policy names",
            expected=f"{row.at_least} of {len(set(row.signers))} signers",
            got=", ".join(sorted(one.hex() for one in held)) or "none of them",
        )
    if document.version < row.minimum_version:
        raise _refused(
            "not-accepted",
            f"document {row.document!r} is too old",
            expected=f"version {row.minimum_version} or newer",
            got=f"version {document.version}",
        )
    return document


def _without(name: str, reference: ReferenceValues, withdrawn: Mapping[bytes, str]) -> ReferenceValues:
    """Leave out withdrawn values; a name without a remaining value is refused, like every empty list."""
    kept = tuple(value for value in reference.values if value not in withdrawn)
    if not kept:
        reasons = "; ".join(dict.fromkeys(withdrawn[value] for value in reference.values))
        raise _refused("revoked", f"every value of {name!r} is revoked: {reasons}")
    return reference if len(kept) == len(reference.values) else replace(reference, values=kept)


def _refused(what: str, problem: str, *, expected: str | None = None, got: str | None = None) -> ConfigurationError:
    return ConfigurationError(
        f"reference values: {problem}",
        code=_CODES[what],
        expected=expected,
        got=got,
        hint=_HINTS.get(what, "'attest references list FILE' shows name, version and digest of a document"),
    )


_CODES = {
    "collide": "references-collide",
    "missing": "references-missing",
    "not-accepted": "references-not-accepted",
    "revoked": "references-revoked",
}
_HINTS = {
    "missing": "give the document with --references FILE, with its signatures if the policy names signers",
    "revoked": "measure a current build, and have a newer document name it",
}
