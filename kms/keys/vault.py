"""An open database together with the keys that open what is wrapped in it."""

from __future__ import annotations

from dataclasses import dataclass

from kms.keys.wrapping.keyring import KekRing
from kms.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Vault:
    """An open database with the keys that open what is wrapped in it."""

    store: Store
    kek: KekRing
