"""Parts of attest and kms that come with another distribution, found by its entry points.

Only the distribution that the caller names is searched: no other distribution can add or replace a part.
"""

from __future__ import annotations

from importlib.metadata import EntryPoints, PackageNotFoundError, distribution
from typing import Any

from attest.errors import ConfigurationError


def load_extension(name: str, *, group: str, of: str) -> Any:  # noqa: ANN401  the entry point decides
    """Return the object that the distribution ``of`` registers under a name.

    Raises:
        ConfigurationError: ``distribution-missing``: it is not installed, or its version has no such entry point.
    """
    try:
        entry_points = distribution(of).entry_points
    except PackageNotFoundError:
        entry_points = EntryPoints()
    for entry_point in entry_points.select(group=group, name=name):
        return entry_point.load()
    raise ConfigurationError(
        f"{name!r} needs the distribution {of}",
        code="distribution-missing",
        hint=f"install {of} of the same version: see 'attest docs installing'",
    )
