"""Policy documents as files, for commands that inspect their text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from attest.cli.files import read_file
from attest.encoding import JsonValue
from attest.errors import ConfigurationError, InvalidValueError
from attest.policy.authoring.policy_cases import SUFFIX
from attest.policy.document import MAX_POLICY_BYTES, placed, read_document
from attest.policy.loader import Policy, load_policy
from attest.policy.model import PolicyDocument, decode_policy
from attest.policy.reference_values.reference_documents import NO_REFERENCE_DOCUMENTS, ReferenceDocument
from attest.policy.signatures import DocumentIdentity, identity_of
from attest.terminal.display import Display


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyText:
    """A policy as written and as decoded, with or without its reference documents."""

    file: str
    data: bytes
    document: PolicyDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFile(PolicyText):
    """A policy that loads: with its rules, too."""

    policy: Policy


def policies_among(files: tuple[str, ...], *, display: Display) -> tuple[str, ...]:
    """Return the files that are no cases: ``policies/*.yaml`` names the ``*.tests.yaml`` beside the policies too.

    Raises:
        ConfigurationError: ``policy-unreadable``: only cases were named.
    """
    policies = tuple(file for file in files if not file.endswith(SUFFIX))
    for file in files:
        if file not in policies:
            display.note(f"{file}: cases, for 'attest policy test'")
    if not policies:
        raise ConfigurationError(
            "only files of cases were named, and no policy",
            code="policy-unreadable",
            expected="a policy",
            got=", ".join(files)[:200],
            hint="'attest policy test' runs cases",
        )
    return policies


def read_policy_text(file: str, *, documents: Mapping[str, ReferenceDocument] = NO_REFERENCE_DOCUMENTS) -> PolicyText:
    """Read a policy for inspection, with those of its reference documents that are available.

    Raises:
        ConfigurationError: it cannot be read, or is no policy; the message names the file.
    """
    data = read_file(file, limit=MAX_POLICY_BYTES, what="FILE")
    parsed = read_document(data, name=file)
    try:
        return PolicyText(file=file, data=data, document=decode_policy(parsed, documents=documents, incomplete=True))
    except InvalidValueError as exc:
        raise placed(exc, data, name=file) from exc


def read_policy_file(file: str, *, documents: Mapping[str, ReferenceDocument] = NO_REFERENCE_DOCUMENTS) -> PolicyFile:
    """Read a policy, with its reference documents.

    Raises:
        ConfigurationError: it cannot be read, or is no policy; the message names the file.
    """
    data = read_file(file, limit=MAX_POLICY_BYTES, what="FILE")
    policy = load_policy(data, name=file, references=documents)
    document = decode_policy(read_document(data, name=file), documents=documents)
    return PolicyFile(file=file, data=data, document=document, policy=policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignableFile:
    """A policy, or a document of reference values."""

    document: JsonValue
    identity: DocumentIdentity


def read_signable(file: str) -> SignableFile:
    """Read a document that can be signed.

    Raises:
        ConfigurationError: it cannot be read, or is neither a policy nor reference values; the message names the file.
    """
    data = read_file(file, limit=MAX_POLICY_BYTES, what="FILE")
    document = read_document(data, name=file)
    try:
        return SignableFile(document=document, identity=identity_of(document))
    except InvalidValueError as exc:
        raise placed(exc, data, name=file) from exc
