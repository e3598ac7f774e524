"""Policy files of the command line."""

from __future__ import annotations

from collections.abc import Mapping

from attest.checks import Unchecked
from attest.cli.files import MAX_KEY_BYTES, read_file
from attest.cli.options import VerificationOptions
from attest.cli.reference_options import NO_REFERENCES, References
from attest.errors import ConfigurationError
from attest.policy.document import MAX_POLICY_BYTES
from attest.policy.loader import Policy, load_policy
from attest.policy.reference_values.reference_documents import (
    MAX_REFERENCE_BYTES,
    NO_REFERENCE_DOCUMENTS,
    ReferenceDocument,
)
from attest.policy.signatures import MAX_SIGNATURE_BYTES, DocumentSignature, read_signature
from attest.policy.signed_documents import read_signed_document
from attest.policy.signing_keys import PolicyPublicKey, read_public_key


def read_policies(
    files: tuple[str, ...], *, references: References = NO_REFERENCES, what: str = "--policy"
) -> tuple[Policy, ...]:
    """Load every named policy, or the baseline; ``what`` is the name of the argument or option in errors.

    Raises:
        ConfigurationError: a file cannot be read, or is no policy; the message names the file.
    """
    documents = read_reference_documents(references)
    return tuple(read_policy(file, documents=documents, what=what) for file in files) or (Policy.baseline(),)


def read_reference_documents(references: References) -> dict[str, ReferenceDocument]:
    """Read the documents of reference values that the command line names, and verify their signatures.

    Raises:
        ConfigurationError: a file cannot be read or is invalid; ``references-collide``, two documents of one name.
    """
    keys = read_public_keys(references.keys, what="--references-key")
    signatures = read_signatures(references.signatures, what="--references-signature")
    documents: dict[str, ReferenceDocument] = {}
    for file in references.documents:
        data = read_file(file, limit=MAX_REFERENCE_BYTES, what="--references")
        document = read_signed_document(data, signatures=signatures, keys=keys, name=file)
        if document.name in documents:
            raise ConfigurationError(
                f"--references: two documents are called {document.name!r}", code="references-collide", got=file
            )
        documents[document.name] = document
    return documents


def read_public_keys(files: tuple[str, ...], *, what: str) -> list[PolicyPublicKey]:
    """Read the public keys of signers of documents; ``what`` is the name of the option in errors."""
    return [read_public_key(read_file(file, limit=MAX_KEY_BYTES, what=what)) for file in files]


def read_signatures(files: tuple[str, ...], *, what: str) -> list[DocumentSignature]:
    """Read detached signatures over documents; ``what`` is the name of the option in errors."""
    return [read_signature(read_file(file, limit=MAX_SIGNATURE_BYTES, what=what)) for file in files]


def read_policy(
    file: str, *, documents: Mapping[str, ReferenceDocument] = NO_REFERENCE_DOCUMENTS, what: str = "--policy"
) -> Policy:
    """Load one policy; ``what`` is the name of its argument or option in errors.

    Raises:
        ConfigurationError: as ``read_policies``.
    """
    data = read_file(file, limit=MAX_POLICY_BYTES, what=what)
    return load_policy(data, name=file, references=documents)


def relaxations(question: VerificationOptions, policy: Policy) -> tuple[Unchecked, ...]:
    """Return the relaxations of the caller and of this policy's author."""
    return tuple(dict.fromkeys((*question.unchecked, *policy.unchecked)))
