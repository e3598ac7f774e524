"""Policy files of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from attest.checks import Unchecked
from attest.cli.files import read_file
from attest.cli.options import Question
from attest.errors import ConfigurationError, SignatureError
from attest.policy.authoring.signing import (
    MAX_SIGNATURE_BYTES,
    DocumentSignature,
    PolicyPublicKey,
    identity_of,
    read_public_key,
    read_signature,
    verify_signatures,
)
from attest.policy.document import read_document
from attest.policy.load import MAX_POLICY_BYTES, Policy, load_policy
from attest.policy.reference_values.reference_documents import (
    MAX_REFERENCE_BYTES,
    NO_REFERENCE_DOCUMENTS,
    ReferenceDocument,
    decode_reference_document,
)

__all__ = ["References", "read_policies", "read_policy", "relaxations"]

MAX_KEY_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """Documents of reference values as the command line names them.

    Attributes:
        files: the documents.
        signatures: detached signatures over them, in any order.
        keys: public keys whose signatures count.
    """

    files: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


NO_REFERENCES = References()


def read_policies(files: tuple[str, ...], *, references: References = References()) -> tuple[Policy, ...]:
    """Load every policy that was named, or the baseline when none was.

    Args:
        files: policies.
        references: documents of reference values, of which each policy takes those that it accepts.

    Raises:
        ConfigurationError: a file cannot be read, or is no policy; the message names the file.
    """
    documents = _read_documents(references)
    return tuple(read_policy(file, documents=documents) for file in files) or (Policy.baseline(),)


def _read_documents(references: References) -> dict[str, ReferenceDocument]:
    keys = [read_public_key(read_file(file, limit=MAX_KEY_BYTES, what="--references-key")) for file in references.keys]
    signatures = [
        read_signature(read_file(file, limit=MAX_SIGNATURE_BYTES, what="--references-signature"))
        for file in references.signatures
    ]
    documents: dict[str, ReferenceDocument] = {}
    for file in references.files:
        document = _read_document(file, signatures, keys)
        if document.name in documents:
            raise ConfigurationError(
                f"--references: two documents are called {document.name!r}", code="references-collide", got=file
            )
        documents[document.name] = document
    return documents


def _read_document(file: str, signatures: list[DocumentSignature], keys: list[PolicyPublicKey]) -> ReferenceDocument:
    """Read one document, and find out which of the keys signed it."""
    parsed = read_document(read_file(file, limit=MAX_REFERENCE_BYTES, what="--references"), name=file)
    document = decode_reference_document(parsed)
    own = [one for one in signatures if one.document == identity_of(parsed)]
    if not own or not keys:
        return document
    try:
        found = verify_signatures(parsed, signatures=own, keys=keys, threshold=1)
    except SignatureError as exc:
        raise ConfigurationError(f"{file}: {exc.message}", code="references-not-accepted", hint=exc.hint) from exc
    return document.signed_by(found.signers)


def read_policy(file: str, *, documents: Mapping[str, ReferenceDocument] = NO_REFERENCE_DOCUMENTS) -> Policy:
    """Load one policy.

    Raises:
        ConfigurationError: as ``read_policies``.
    """
    data = read_file(file, limit=MAX_POLICY_BYTES, what="--policy")
    return load_policy(data, name=file, references=documents)


def relaxations(question: Question, policy: Policy) -> tuple[Unchecked, ...]:
    """Return what is left unchecked: by whoever asks, and by the author of this policy."""
    return tuple(dict.fromkeys((*question.unchecked, *policy.unchecked)))
