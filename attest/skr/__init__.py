"""Secure key release from Azure Key Vault, a Managed HSM, or a service that speaks their protocol.

::

    with SkrClient("https://shared.attest.example", roots=roots, bearer=bearer) as skr:
        with skr.release("https://vault.example/keys/model") as key:
            model = decrypt(weights, key.material)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attest.lazy_names import lazy_names

if TYPE_CHECKING:
    from attest.skr.addresses import VaultKey
    from attest.skr.client import SkrClient
    from attest.skr.guest import SkrGuest
    from attest.skr.released_key import SkrKey

__all__ = ["SkrClient", "SkrGuest", "SkrKey", "VaultKey"]

__getattr__ = lazy_names(
    __name__,
    {
        "attest.skr.addresses": ("VaultKey",),
        "attest.skr.client": ("SkrClient",),
        "attest.skr.guest": ("SkrGuest",),
        "attest.skr.released_key": ("SkrKey",),
    },
)
