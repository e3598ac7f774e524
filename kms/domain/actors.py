"""Who asks for a change of what the service keeps. Every entry of the log about a change names one."""

from __future__ import annotations

import enum
import os
import pwd
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
    """Return the user who runs this command; one without a name, as in many containers, is known by the number.

    The environment is not asked: the log would name whomever somebody writes there.
    """
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    return Actor(name=name, means=Means.LOCAL)


SCHEDULE = Actor(name="schedule", means=Means.SERVICE)
