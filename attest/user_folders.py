"""Folders of the user, by the XDG Base Directory Specification."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def user_folder(variable: str, default: str, environ: Mapping[str, str]) -> Path | None:
    """Return the folder that a variable such as XDG_CACHE_HOME names, else the default below HOME.

    A relative path is ignored, as the specification asks; None: neither is absolute.
    """
    for base in (Path(environ.get(variable, "")), Path(environ.get("HOME", "")) / default):
        if base.is_absolute():
            return base
    return None
