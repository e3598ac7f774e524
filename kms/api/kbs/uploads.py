"""Resources that administrators upload: secrets of the configured tenant under the configured policy.

They are released through this protocol alone.

Spec: specs/kbs-protocol.md, section 16.
"""

from __future__ import annotations

import re
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import Final

from attest.release import KeyName, KeyReference, pad_resource
from kms.api.kbs.errors import KbsRefusal
from kms.api.kbs.resources import no_resource
from kms.config.kbs import KbsSettings
from kms.domain.actors import Actor
from kms.domain.aliases import Alias, is_kbs_path, kbs_address
from kms.domain.kek import RandomBytes
from kms.domain.keys import OPAQUE, KeyPurpose, KeyRecord
from kms.domain.secret import SecretBytes
from kms.domain.wires import Wire
from kms.keys.admin import KEY_IMPORTED, add_key, require_key
from kms.keys.aliases import add_alias_in, key_of, remove_alias, remove_alias_in
from kms.keys.destruction import schedule_destruction
from kms.keys.rotation import Rotator, rotate_key
from kms.release.services import Services

_ODD: Final = re.compile(r"[^a-z0-9._-]")
_SHOWN_CHARACTERS: Final = 96
_SUFFIX_BYTES: Final = 4
_KBS_ONLY: Final = frozenset({Wire.KBS})


class Uploads:
    """Resources that administrators upload and delete.

    Args:
        destroy_after: time for which an operator can restore a deleted resource.
    """

    def __init__(
        self, services: Services, settings: KbsSettings, *, random: RandomBytes, destroy_after: timedelta
    ) -> None:
        self._services = services
        self._settings = settings
        self._random = random
        self._destroy_after = destroy_after

    def write(self, path: str, content: bytes, *, actor: Actor) -> None:
        """Store a value under a path, and replace an older one.

        Raises:
            KbsRefusal: 400, the path is malformed; 409, the path leads to a key that was not uploaded, or no policy is
                configured.
            ConfigurationError: the value is too long.
            UnavailableError: the database is in use, or the key-encryption key's back-end does not answer.
        """
        services, at = self._services, self._services.clock()
        record = self._find(path)
        material = SecretBytes(pad_resource(content))
        if record is not None:
            _require_uploaded(record, path)
            rotator = Rotator(store=services.store, kek=services.kek, random=self._random)
            rotate_key(rotator, record.name, overlap=timedelta(0), actor=actor, at=at, material=material)
            return
        if self._settings.policy is None:
            text = "no policy is configured that could guard uploaded resources"
            raise KbsRefusal(HTTPStatus.CONFLICT, "PluginInternalError", text, code="kbs-policy-missing")
        name = KeyName(tenant=self._settings.tenant, key_id=self._key_id(path))
        alias = Alias(address=kbs_address(path), key=name)
        add_key(
            services.store,
            services.kek,
            name=name,
            material=material,
            policy=self._settings.policy,
            kind=KEY_IMPORTED,
            actor=actor,
            at=at,
            algorithm=OPAQUE,
            via=_KBS_ONLY,
            also=lambda tx: add_alias_in(tx, alias, actor=actor, at=at),
        )

    def delete(self, path: str, *, actor: Actor) -> None:
        """Remove a resource. An uploaded one is destroyed after the service's delay; the key of an alias stays.

        Raises:
            KbsRefusal: 404, the resource does not exist; 400, the path is malformed.
            UnavailableError: the database is in use.
        """
        store, at = self._services.store, self._services.clock()
        record = self._find(path)
        if record is None:
            raise no_resource(path)
        remove = partial(remove_alias_in, address=kbs_address(path), actor=actor, at=at)
        if not _is_uploaded(record):
            remove_alias(store, kbs_address(path), actor=actor, at=at)
            return
        schedule_destruction(
            store,
            KeyReference(name=record.name),
            after=self._destroy_after,
            minimum=self._destroy_after,
            actor=actor,
            at=at,
            also=remove,
        )

    def _find(self, path: str) -> KeyRecord | None:
        """Return the key that a path leads to, or None."""
        if not is_kbs_path(path):
            text = f"{path[:200]!r} is no path REPOSITORY/TYPE/TAG"
            raise KbsRefusal(HTTPStatus.BAD_REQUEST, "PluginInternalError", text, code="kbs-path-invalid")
        with self._services.store.reading() as tx:
            name = key_of(tx, kbs_address(path))
            return None if name is None else require_key(tx, name)

    def _key_id(self, path: str) -> str:
        """Return a new id that shows the path; a deleted resource and its successor have different ones."""
        shown = _ODD.sub("-", path.lower().replace("/", "."))[:_SHOWN_CHARACTERS]
        return f"kbs.{shown}-{self._random(_SUFFIX_BYTES).hex()}"


def _is_uploaded(record: KeyRecord) -> bool:
    return record.purpose is KeyPurpose.SECRET and record.via == _KBS_ONLY


def _require_uploaded(record: KeyRecord, path: str) -> None:
    """Refuse to replace a key that an administrator of the service gave this address."""
    if not _is_uploaded(record):
        text = f"{path} is an alias of the key {str(record.name)!r}, which 'kms key' changes"
        raise KbsRefusal(HTTPStatus.CONFLICT, "PluginInternalError", text, code="kbs-resource-not-uploaded")
