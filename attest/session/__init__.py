"""Keys for the life of a program: obtained by attestation, renewed in the background, deleted at their end.

::

    with attest.Session("https://kms.example", service="kms.example/prod+0f…") as session:
        key = session.key("llama-70b")
        model = decrypt(weights, key.material)

``AsyncSession`` is the counterpart for asyncio. ``attest.release`` has the checks; this package adds settings of the
image, one deadline, retries, leases, and actionable errors for long-running programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attest.errors import LeaseLostError, ServiceNotGenuineError, ServiceUnreachableError
from attest.lazy_names import lazy_names
from attest.session.async_session import AsyncSession
from attest.session.key import SessionKey
from attest.session.schedule import SessionTiming
from attest.session.session import Session
from attest.session.settings import SessionSettings, load_settings

if TYPE_CHECKING:
    from attest.session.connection import expectation_of, open_http, trusting, watch_of
    from attest.session.schedule import SYSTEM_TIMING
    from attest.session.verification_inputs import anchors_given, asking_vendors, endorsements_given

__all__ = [
    "SYSTEM_TIMING",
    "AsyncSession",
    "LeaseLostError",
    "ServiceNotGenuineError",
    "ServiceUnreachableError",
    "Session",
    "SessionKey",
    "SessionSettings",
    "SessionTiming",
    "anchors_given",
    "asking_vendors",
    "endorsements_given",
    "expectation_of",
    "load_settings",
    "open_http",
    "trusting",
    "watch_of",
]

__getattr__ = lazy_names(
    __name__,
    {
        "attest.session.connection": ("expectation_of", "open_http", "trusting", "watch_of"),
        "attest.session.schedule": ("SYSTEM_TIMING",),
        "attest.session.verification_inputs": ("anchors_given", "asking_vendors", "endorsements_given"),
    },
)
