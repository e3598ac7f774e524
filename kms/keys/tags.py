"""Tags: operators' labels of keys. They have no effect on decisions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime

from attest.encoding import JsonValue
from attest.errors import ConfigurationError
from kms.domain.actors import Actor
from kms.domain.errors import KeyConflictError
from kms.domain.keys import KeyName
from kms.keys.admin import name_members, require_key
from kms.store import Store, WriteTransaction

KEY_TAGGED = "key-tagged"
MAX_TAGS = 32
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:/@+-]{0,254}[A-Za-z0-9]|[A-Za-z0-9]")


def parse_tags(texts: Iterable[str]) -> dict[str, str]:
    """Read ``name=value`` texts, each name once.

    Raises:
        ConfigurationError: ``tag-invalid``.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name in found or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ConfigurationError(
                f"{text[:80]!r} is not a tag",
                code="tag-invalid",
                expected="name=value, each name once; the name of up to 64 lower-case letters, digits, '.', '_', '-', "
                "the value of up to 256 letters, digits, spaces and ._:/@+-",
                got=repr(text[:80]),
            )
        found[name] = value
    return found


def change_tags(
    store: Store, name: KeyName, *, put: Mapping[str, str], remove: Iterable[str], actor: Actor, at: datetime
) -> Mapping[str, str]:
    """Remove tags of a key, add or replace others, as ``parse_tags`` read them, and return all that it has now.

    Raises:
        KeyUnknownError: ``key-unknown``.
        KeyConflictError: ``key-state-unchanged``: it has no such tag; ``tags-too-many``.
        UnavailableError: the database is in use.
    """
    with store.writing() as tx:
        require_key(tx, name)
        for tag in remove:
            _remove(tx, name, tag)
        for tag, value in put.items():
            tx.tags.put(name, tag, value)
        tags = tx.tags.of_key(name)
        if len(tags) > MAX_TAGS:
            problem = f"a key has at most {MAX_TAGS} tags"
            raise KeyConflictError(problem, code="tags-too-many", field=str(name), got=str(len(tags)))
        body = {**name_members(name), "tags": dict[str, JsonValue](tags), "actor": actor.members()}
        tx.log.add(kind=KEY_TAGGED, at=at, body=body)
    return tags


def _remove(tx: WriteTransaction, name: KeyName, tag: str) -> None:
    if tag not in tx.tags.of_key(name):
        problem = f"the key {str(name)!r} has no tag {tag[:64]!r}"
        raise KeyConflictError(problem, code="key-state-unchanged", field=str(name))
    tx.tags.remove(name, tag)
