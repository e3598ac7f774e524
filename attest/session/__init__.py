"""Keys for the life of a program: obtained by attestation, renewed in the background, deleted at their end.

::

    with attest.Session("https://kms.example", service="kms.example/prod+0f…") as session:
        key = session.key("llama-70b")
        model = decrypt(weights, key.material)

``AsyncSession`` is the counterpart for asyncio. ``attest.release`` has the checks; this package adds settings of the
image, one deadline, retries, leases, and actionable errors for long-running programs.
"""

from __future__ import annotations

from attest.errors import LeaseLostError, ServiceNotGenuineError, ServiceUnreachableError
from attest.session.async_session import AsyncSession
from attest.session.key import SessionKey
from attest.session.schedule import SessionTiming
from attest.session.session import Session
from attest.session.settings import SessionSettings, load_settings

__all__ = [
    "AsyncSession",
    "LeaseLostError",
    "ServiceNotGenuineError",
    "ServiceUnreachableError",
    "Session",
    "SessionKey",
    "SessionSettings",
    "SessionTiming",
    "load_settings",
]
