"""``--rego`` and ``--rego-data``: a Rego policy beside the typed ones, which can only refuse more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from attest.cli.files import read_file
from attest.errors import ConfigurationError, EvidenceError
from attest.terminal.display import stacked

if TYPE_CHECKING:
    from attest.appraisal import AttestationResult
    from attest.encoding import JsonValue
    from attest.rego import RegoPolicy

MAX_REGO_DATA_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RegoQuestion:
    """The Rego policies of the command line; with none, results stay as they are."""

    policies: tuple[RegoPolicy, ...] = ()
    data: Mapping[str, JsonValue] = field(default_factory=dict)

    def judge(self, results: Sequence[AttestationResult]) -> tuple[AttestationResult, ...]:
        """Return the results with a check ``policy.rego`` for each evaluation of a policy."""
        judged = tuple(results)
        for policy in self.policies:
            from attest.rego import with_rego

            judged = with_rego(judged, policy, self.data)
        return judged


rego_options = stacked(
    (
        click.option(
            "--rego",
            metavar="FILE",
            multiple=True,
            help="Trustee's Rego policy: it may refuse what the other policies affirm, never the reverse. Repeatable.",
        ),
        click.option(
            "--rego-data",
            metavar="FILE",
            help="JSON object: reference values by name (attestation policy), or data (resource policy).",
        ),
    ),
    title="Policies and reference values",
)
"""Add ``--rego`` and ``--rego-data`` (arguments ``rego`` and ``rego_data``) to a command."""


def read_rego(files: tuple[str, ...], data_file: str | None) -> RegoQuestion:
    """Read the files that the options name.

    Raises:
        ConfigurationError: ``rego-policy-invalid``, ``rego-data-invalid``, ``rego-unavailable``, or a file cannot be
            read.
    """
    if not files:
        if data_file is not None:
            raise ConfigurationError("--rego-data requires --rego", code="rego-data-invalid")
        return RegoQuestion()
    if find_spec("regopy") is None:
        raise ConfigurationError(
            "--rego: the Rego engine is not installed",
            code="rego-unavailable",
            hint="pip install 'attest-kms[rego]', on glibc 2.34 or newer",
        )
    from attest.rego.policy import MAX_REGO_BYTES, read_rego_policy

    policies = tuple(read_rego_policy(read_file(file, limit=MAX_REGO_BYTES, what="--rego")) for file in files)
    return RegoQuestion(policies=policies, data=_data(data_file))


def _data(file: str | None) -> Mapping[str, JsonValue]:
    if file is None:
        return {}
    from attest.encoding import json_value

    data = read_file(file, limit=MAX_REGO_DATA_BYTES, what="--rego-data")
    try:
        document = json_value(data, what="--rego-data")
    except EvidenceError as exc:
        raise ConfigurationError(exc.message, code="rego-data-invalid") from exc
    if not isinstance(document, dict):
        raise ConfigurationError("--rego-data: expected a JSON object", code="rego-data-invalid")
    return document
