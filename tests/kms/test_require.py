"""``caller.require``: what a handler does is allowed in the transaction that does it, or not at all (MC-19)."""

import pytest

from attest.errors import ConfigurationError
from kms.admin_api.context import AdminContext, Caller, OwnThread, of_running
from kms.auth.authentication import LocalAuthenticator
from kms.auth.names import jwt_identity, parse_identity
from kms.domain.actors import Actor, Means
from kms.domain.errors import ForbiddenError, KeyUnknownError
from kms.domain.permissions import Operation, Role
from kms.keys.tenants import create_tenant
from tests.kms.admins import ROOT, admin_client
from tests.kms.oidc import ISSUER
from tests.kms.support import MODEL, Harness

STRANGER = jwt_identity(ISSUER, "stranger")


def calling(harness: Harness, identity: Actor) -> Caller:
    room, services = OwnThread(settings=harness.settings), of_running(harness.services)
    return Caller(
        identity=identity,
        context=AdminContext(room=room, services=services, authenticator=LocalAuthenticator()),
    )


def test_a_handler_that_requires_nothing_reaches_no_database(harness: Harness) -> None:
    caller = calling(harness, ROOT)
    with pytest.raises(RuntimeError, match="must require an operation"), caller.vault.store.reading():
        pass
    with pytest.raises(RuntimeError, match="must require an operation"), caller.vault.store.writing():
        pass
    caller.require(Operation.TENANTS_READ)
    with caller.vault.store.reading() as reader:
        assert reader.tenants.exists("default")


def test_what_no_role_allows_is_refused_at_once(harness: Harness) -> None:
    harness.add_key("model")
    caller = calling(harness, STRANGER)
    with pytest.raises(ForbiddenError):
        caller.require(Operation.TENANTS_CREATE)
    with pytest.raises(KeyUnknownError):
        caller.require(Operation.KEYS_CHANGE, key=MODEL)
    with pytest.raises(RuntimeError, match="must require an operation"), caller.vault.store.writing():
        pass


def test_a_role_that_goes_between_two_transactions_counts_in_no_later_one(harness: Harness) -> None:
    with admin_client(harness) as client:
        identity = client.give("leaving", Role.ADMINISTRATOR)
    store, caller = harness.services.store, calling(harness, identity)
    caller.require(Operation.TENANTS_CREATE)
    with store.writing() as writer:
        (grant,) = writer.grants.held_by(identity)
        writer.grants.revoke(grant.number, by=ROOT, at=grant.granted_at)
    with pytest.raises(ForbiddenError):
        create_tenant(caller.vault.store, "late", actor=identity, at=harness.clock())
    with store.reading() as reader:
        assert not reader.tenants.exists("late")


def test_everything_that_was_required_holds_together(harness: Harness) -> None:
    with admin_client(harness) as client:
        identity = client.give("two", Role.ADMINISTRATOR)
        client.give("two", Role.AUDITOR)
    store, caller = harness.services.store, calling(harness, identity)
    caller.require(Operation.TENANTS_CREATE)
    caller.require(Operation.LOG_READ)
    with store.writing() as writer:
        auditor = next(one for one in writer.grants.held_by(identity) if one.role is Role.AUDITOR)
        writer.grants.revoke(auditor.number, by=ROOT, at=auditor.granted_at)
    with pytest.raises(ForbiddenError, match=r"log\.read"), caller.vault.store.reading():
        pass


def test_mc_31_the_user_of_the_machine_needs_no_role_and_nobody_becomes_one(harness: Harness) -> None:
    caller = calling(harness, LocalAuthenticator().identify(authorization=("Bearer x",), certificate=b"x"))
    assert caller.identity.means is Means.LOCAL
    caller.require(Operation.GRANTS_CHANGE)
    with pytest.raises(ConfigurationError):
        parse_identity("local:root")
