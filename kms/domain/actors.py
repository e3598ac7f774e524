"""Actors: the identities that request changes. Every log entry about a change names one."""

from __future__ import annotations

import enum
import os
import pwd
from dataclasses import dataclass

from attest.encoding import JsonValue


class Means(enum.StrEnum):
    """The means by which an actor was identified."""

    LOCAL = "local"
    """A local user at the command line with read access to the key-encryption key and the database."""
    JWT = "jwt"
    MTLS = "mtls"
    KBS = "kbs"
    """A token of an administrator of a Key Broker Service, see ``kms.config.kbs``."""
    SKR = "skr"
    """A token of a caller of a vault, see ``kms.config.skr``."""
    SERVICE = "service"
    """The service itself, by its schedule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """An identified person or program.

    Attributes:
        name: unique for its means: user name, ``issuer|subject``, subject of a certificate.
    """

    name: str
    means: Means

    def members(self) -> dict[str, JsonValue]:
        """Return the members of a log entry."""
        return {"name": self.name, "means": str(self.means)}


def local_actor() -> Actor:
    """Return the user who runs this command, by number if it has no name, as in many containers.

    Environment variables are ignored, because anyone can set them.
    """
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    return Actor(name=name, means=Means.LOCAL)


SCHEDULE = Actor(name="schedule", means=Means.SERVICE)
