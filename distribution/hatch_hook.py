"""Hatchling's hook: manual pages and completions of `make dist` in the wheel and in the source archive.

A wheel that is built otherwise lacks them, since making them takes the libraries of all commands.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

GENERATED = "build/share"


class SharedFiles(BuildHookInterface):  # type: ignore[type-arg]  # hatchling has no type to name
    """Add the generated files, if there are any."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add them to a wheel below ``share/``; to a source archive where they lie, for the wheel made of it."""
        if version == "editable":
            return
        folder = Path(self.root) / GENERATED
        for path in sorted(one for one in folder.rglob("*") if one.is_file()):
            name = path.relative_to(folder).as_posix()
            if self.target_name == "wheel":
                build_data["shared_data"][str(path)] = f"share/{name}"
            else:
                build_data["force_include"][str(path)] = f"{GENERATED}/{name}"
