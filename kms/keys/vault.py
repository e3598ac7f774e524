"""An open database together with its key-encryption keys."""

from __future__ import annotations

from dataclasses import dataclass

from kms.keys.wrapping.keyring import KekRing
from kms.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Vault:
    """An open database with its key-encryption keys."""

    store: Store
    kek: KekRing
