"""Policies to copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from attest.policy.document import read_document
from attest.policy.loader import load_policy
from attest.policy.model import decode_policy

_FOLDER: Final = Path(__file__).with_name("policies")
_CASES: Final = ".tests.yaml"
_EDITOR_LINE: Final = "# yaml-language-server:"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTemplate:
    """A policy to copy.

    Attributes:
        text: without the line for editors, which names a file beside the original.
        accepts_simulated: a policy for a laboratory, which accepts simulated evidence.
    """

    name: str
    text: str
    description: str
    accepts_simulated: bool


def policy_templates() -> Mapping[str, PolicyTemplate]:
    """Return the policies by name."""
    found = sorted(path for path in _FOLDER.glob("*.yaml") if not path.name.endswith(_CASES))
    return {path.stem: _template(path) for path in found}


def _template(path: Path) -> PolicyTemplate:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith(_EDITOR_LINE))
    document = decode_policy(read_document(text.encode(), name=path.name))
    return PolicyTemplate(
        name=path.stem,
        text=text,
        description=document.description,
        accepts_simulated=load_policy(text.encode()).simulated is not None,
    )
