"""Refusals of a model: one error class, for the person who chose the model."""

from __future__ import annotations

from typing import Final

from attest.errors import ConfigurationError

CONFIG: Final = "embedding-config-unsupported"
TOKENIZER: Final = "embedding-tokenizer-unsupported"
WEIGHTS: Final = "embedding-weights-unsuitable"

_MAX_SHOWN: Final = 100


def brief(value: object) -> str:
    """Return a value as text for a message, shortened."""
    shown = repr(value)
    return shown if len(shown) <= _MAX_SHOWN else shown[:_MAX_SHOWN] + "…"


def unsuitable(code: str, field: str, *, expected: str, got: str) -> ConfigurationError:
    """Return the error for a model that this program does not compute: ``CONFIG``, ``TOKENIZER`` or ``WEIGHTS``."""
    return ConfigurationError(
        f"{field}: expected {expected}, got {got}",
        code=code,
        field=field,
        expected=expected,
        got=got,
        hint="use a sentence-embedding model of the kind of all-MiniLM-L6-v2, as its maker published it",
    )
