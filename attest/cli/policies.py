"""Policy files of the command line."""

from __future__ import annotations

from collections.abc import Mapping

from attest.checks import Unchecked
from attest.cli.files import read_file
from attest.cli.options import Question
from attest.errors import ConfigurationError
from attest.policy.load import MAX_POLICY_BYTES, Policy, load_policy
from attest.policy.reference_values.reference_documents import (
    MAX_REFERENCE_BYTES,
    NO_REFERENCE_DOCUMENTS,
    ReferenceDocument,
    read_reference_document,
)

__all__ = ["read_policies", "read_policy", "relaxations"]


def read_policies(files: tuple[str, ...], *, references: tuple[str, ...] = ()) -> tuple[Policy, ...]:
    """Load every policy that was named, or the baseline when none was.

    Args:
        files: policies.
        references: documents of reference values, of which each policy takes those that it accepts.

    Raises:
        ConfigurationError: a file cannot be read, or is no policy; the message names the file.
    """
    documents = _read_documents(references)
    return tuple(read_policy(file, documents=documents) for file in files) or (Policy.baseline(),)


def _read_documents(files: tuple[str, ...]) -> dict[str, ReferenceDocument]:
    documents: dict[str, ReferenceDocument] = {}
    for file in files:
        data = read_file(file, limit=MAX_REFERENCE_BYTES, what="--references")
        document = read_reference_document(data)
        if document.name in documents:
            raise ConfigurationError(
                f"--references: two documents are called {document.name!r}", code="references-collide", got=file
            )
        documents[document.name] = document
    return documents


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
