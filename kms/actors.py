"""Who asks for a change of what the service keeps. Every entry of the log about a change names one."""

from __future__ import annotations

import enum
import getpass
import os
from dataclasses import dataclass

from attest.encoding import JsonValue

__all__ = ["SCHEDULE", "Actor", "Means", "local_actor"]


class Means(enum.StrEnum):
    """How it is known who somebody is."""

    LOCAL = "local"
    """A user of the machine who may read the key-encryption key and the database, at the command line."""
    JWT = "jwt"
    MTLS = "mtls"
    SERVICE = "service"
    """The service itself, by its schedule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Somebody who was identified.

    Attributes:
        name: unique among those known by these means: user name, ``issuer|subject``, subject of a certificate.
        means: how they are known.
    """

    name: str
    means: Means

    def members(self) -> dict[str, JsonValue]:
        """Return how an entry of the log names them."""
        return {"name": self.name, "means": str(self.means)}


def local_actor() -> Actor:
    """Return the user who runs this command; one without a name, as in many containers, is known by the number."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # what is raised depends on the version of Python
        name = f"uid {os.geteuid()}"
    return Actor(name=name, means=Means.LOCAL)


SCHEDULE = Actor(name="schedule", means=Means.SERVICE)
