"""Policy files of the command line."""

from __future__ import annotations

from attest.checks import Unchecked
from attest.cli.files import read_file
from attest.cli.options import Question
from attest.errors import ConfigurationError
from attest.policy.load import MAX_POLICY_BYTES, Policy, load_policy

__all__ = ["read_policies", "read_policy", "relaxations"]


def read_policies(files: tuple[str, ...]) -> tuple[Policy, ...]:
    """Load every policy that was named, or the baseline when none was.

    Raises:
        ConfigurationError: a file cannot be read, or is no policy; the message names the file.
    """
    return tuple(map(read_policy, files)) or (Policy.baseline(),)


def read_policy(file: str) -> Policy:
    """Load one policy.

    Raises:
        ConfigurationError: as ``read_policies``.
    """
    data = read_file(file, limit=MAX_POLICY_BYTES, what="--policy")
    try:
        return load_policy(data)
    except ConfigurationError as exc:
        raise ConfigurationError(
            f"{file}: {exc.message}",
            code=exc.code,
            field=exc.field,
            expected=exc.expected,
            got=exc.got,
            hint=exc.hint,
        ) from exc


def relaxations(question: Question, policy: Policy) -> tuple[Unchecked, ...]:
    """Return what is left unchecked: by whoever asks, and by the author of this policy."""
    return tuple(dict.fromkeys((*question.unchecked, *policy.unchecked)))
