"""Rotation of a vault's keys: at once, and by a rotation policy, which is the schedule of the key in this service.

Spec: specs/azure-skr.md, section 6.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Final, TypeAlias

from attest.encoding import JsonValue
from kms.api.skr.bodies import read_object
from kms.api.skr.bundles import VaultView
from kms.api.skr.errors import bad_parameter
from kms.api.skr.identifiers import key_id
from kms.api.skr.keys import VaultKeys
from kms.config.skr import Vault
from kms.domain.actors import Actor
from kms.domain.kek import RandomBytes
from kms.keys.rotation import DEFAULT_OVERLAP, Rotator, remove_schedule, rotate_key, set_schedule
from kms.release.services import Services

Document: TypeAlias = Mapping[str, JsonValue]
_MEMBERS: Final = frozenset({"id", "lifetimeActions", "attributes"})
_DURATION: Final = re.compile(r"P(?=\d)(?:(\d{1,4})Y)?(?:(\d{1,4})M)?(?:(\d{1,4})D)?", re.ASCII)
_DAYS: Final = (365, 30, 1)
"""Of a year, a month and a day."""


class VaultRotation:
    """Rotation of keys that were made in a vault."""

    def __init__(self, services: Services, keys: VaultKeys, *, random: RandomBytes) -> None:
        self._services = services
        self._keys = keys
        self._random = random

    def rotate(self, vault: Vault, name: str, *, actor: Actor) -> VaultView:
        """Make the next version of a key, with the same settings.

        Raises:
            SkrRefusal: 404, 409.
            KeyConflictError: ``secret-not-generated``: it was imported with a length that is not made here.
        """
        record, services = self._keys.made_here(vault, name), self._services
        rotator = Rotator(store=services.store, kek=services.kek, random=self._random)
        rotate_key(rotator, record.name, overlap=DEFAULT_OVERLAP, actor=actor, at=services.clock())
        return self._keys.show(vault, name, None)

    def policy(self, vault: Vault, name: str) -> Document:
        """Return the rotation policy of a key; one without a schedule has no actions.

        Raises:
            SkrRefusal: 404.
        """
        record = self._keys.find(vault, name, None).record
        with self._services.store.reading() as tx:
            schedule = tx.schedules.find(record.name)
        actions: list[JsonValue] = []
        if schedule is not None:
            # A schedule of ``kms key schedule`` may have a part of a day, which this form does not state.
            days = max(1, schedule.every // timedelta(days=1))
            actions.append({"trigger": {"timeAfterCreate": f"P{days}D"}, "action": {"type": "Rotate"}})
        return {"id": f"{key_id(vault.host, name, None)}/rotationpolicy", "lifetimeActions": actions, "attributes": {}}

    def set_policy(self, vault: Vault, name: str, body: bytes, *, actor: Actor) -> Document:
        """Put a rotation policy into force, or end the schedule by one that rotates nothing.

        Raises:
            SkrRefusal: 400, 404, 409.
            KeyConflictError: ``secret-not-generated``.
        """
        every = read_rotation_policy(body)
        record, store, at = self._keys.made_here(vault, name), self._services.store, self._services.clock()
        if every is not None:
            set_schedule(store, record.name, every=every, overlap=min(DEFAULT_OVERLAP, every), actor=actor, at=at)
        else:
            with store.reading() as tx:
                there = tx.schedules.find(record.name) is not None
            if there:
                remove_schedule(store, record.name, actor=actor, at=at)
        return self.policy(vault, name)


def read_rotation_policy(body: bytes) -> timedelta | None:
    """Return the time between rotations that a policy asks for, or None; notifications are ignored.

    Raises:
        SkrRefusal: 400 ``skr-rotation-policy-invalid``.
    """
    actions = read_object(body, _MEMBERS).get("lifetimeActions", [])
    if not isinstance(actions, list):
        raise _invalid("lifetimeActions: expected a list")
    found = [_period(one) for one in actions if _type(one) == "rotate"]
    if len(found) > 1:
        raise _invalid("lifetimeActions: expected at most one of type Rotate")
    return found[0] if found else None


def _type(action: JsonValue) -> str:
    kind = _member(_member(action, "action"), "type")
    if not isinstance(kind, str) or kind.lower() not in {"rotate", "notify"}:
        raise _invalid("action.type: expected Rotate or Notify")
    return kind.lower()


def _period(action: JsonValue) -> timedelta:
    text = _member(_member(action, "trigger"), "timeAfterCreate")
    parts = _DURATION.fullmatch(text) if isinstance(text, str) else None
    days = 0 if parts is None else sum(int(one or 0) * size for one, size in zip(parts.groups(), _DAYS, strict=True))
    if not days:
        raise _invalid("trigger.timeAfterCreate: expected a duration such as P90D, of years, months and days")
    return timedelta(days=days)


def _member(value: JsonValue, name: str) -> JsonValue:
    return value.get(name) if isinstance(value, dict) else None


def _invalid(text: str) -> Exception:
    return bad_parameter(text, "skr-rotation-policy-invalid")
