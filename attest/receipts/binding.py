"""The binding of evidence that certifies receipt keys."""

from __future__ import annotations

from typing import Final

from attest.channel.records import CONTEXT as CHANNEL_CONTEXT
from attest.channel.records import ROLE
from attest.evidence.binding import Binding

RECEIPT_CONTEXT: Final = "receipts/v1"
"""Context of a service without the encrypted channel."""
CONTEXTS: Final = (CHANNEL_CONTEXT, RECEIPT_CONTEXT)


def receipt_binding(digest: bytes, *, audience: str, nonce: bytes, devices: tuple[bytes, ...] = ()) -> Binding:
    """Return the binding of a service without a channel; with one, the channel's binding takes ``init_data``.

    Args:
        digest: of the machine's statement, 32 bytes.
        audience: name of the service, as its clients use it.
        nonce: 32 bytes of a client, or random ones.
        devices: as for ``Binding``.
    """
    return Binding(
        context=RECEIPT_CONTEXT,
        role=ROLE,
        audience=audience,
        nonce=nonce,
        key=digest,
        devices=devices,
        init_data=digest,
    )
