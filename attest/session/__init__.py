"""Keys for as long as a program runs: obtained by attestation, renewed in the background, dropped when they end.

::

    with attest.Session("https://kms.example", service="kms.example/prod+0f…") as session:
        key = session.key("llama-70b")
        model = decrypt(weights, key.material)

``AsyncSession`` is the same for asyncio. What is checked on the way stands in ``attest.release``; what is added here is
what a program that lives on needs: settings of the image, one deadline, retries, leases, and errors to act upon.
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
