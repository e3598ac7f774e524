"""A recovered service is the same service: the same key, and a log that passes through what was noted of it."""

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from attest.errors import ConfigurationError, LogForkedError, SignatureError
from attest.release.client import KeyReleaseClient
from attest.release.log_monitor import LogWatch, ProcessMemory
from kms.domain.errors import IntegrityError, LogBrokenError
from kms.domain.keys import own_context
from kms.domain.log_verification import LogState
from kms.domain.secret import SecretBytes
from kms.operations.backup import RESTORED
from kms.operations.continuity import AcceptedRollback, NotedElsewhere, logged_identity, require_continuity
from kms.operations.services import open_services
from tests.kms.stores import write_genuine
from tests.kms.support import MATERIAL, FakeRandom, Harness, Workload
from tests.kms.test_api import client_of
from tests.kms.test_backup import elsewhere, filled, made, restored


def checkpoint(harness: Harness) -> bytes:
    return harness.services.log.checkpoint().note.encode()


def obtained(harness: Harness, memory: ProcessMemory) -> bytes:
    """A client that pinned the identity, and follows the log, gets its key."""
    public = harness.services.identity.public
    with client_of(harness) as http:
        client = KeyReleaseClient(http, service=public, watch=LogWatch(public, memory=memory))  # type: ignore[arg-type]
        (key,) = client.release(("model",), attester=Workload().attest)
        return key.material


def test_mc_27_a_restored_service_has_the_key_that_clients_pinned_and_continues_the_log_that_they_saw(
    harness: Harness,
) -> None:
    memory = ProcessMemory()
    filled(harness)
    assert obtained(harness, memory) == MATERIAL
    kept = checkpoint(harness)
    path, _ = made(harness)
    again = restored(harness, path, elsewhere(harness), noted=NotedElsewhere(checkpoints=[kept]))
    assert again.services.identity.public == harness.services.identity.public
    assert obtained(again, memory) == MATERIAL
    again.close()


def test_mc_36_a_backup_that_is_older_than_a_checkpoint_is_refused(harness: Harness) -> None:
    path, _ = made(filled(harness))
    harness.add_key("later")
    kept = checkpoint(harness)
    with pytest.raises(LogBrokenError) as caught:
        restored(harness, path, elsewhere(harness), noted=NotedElsewhere(checkpoints=[kept]))
    assert caught.value.code == "log-rolled-back"
    assert "--accept-rollback" in str(caught.value.hint)
    assert not Path(elsewhere(harness).database).exists()


def test_a_checkpoint_of_the_very_state_of_the_backup_is_met(harness: Harness) -> None:
    filled(harness)
    kept = checkpoint(harness)
    path, _ = made(harness)
    again = restored(harness, path, elsewhere(harness), noted=NotedElsewhere(checkpoints=[kept]))
    assert "accepted_rollback" not in again.entries()[-1]
    again.close()


def test_mc_36_an_accepted_rollback_is_logged_with_its_reason_and_what_is_lost(harness: Harness) -> None:
    memory = ProcessMemory()
    path, _ = made(filled(harness))
    obtained(harness, memory)
    kept = checkpoint(harness)
    noted = NotedElsewhere(checkpoints=[kept], accepted=AcceptedRollback(reason="the disk died"))
    again = restored(harness, path, elsewhere(harness), noted=noted)
    last = again.entries()[-1]
    assert last["kind"] == RESTORED
    accepted = last["accepted_rollback"]
    assert isinstance(accepted, dict)
    assert accepted["reason"] == "the disk died"
    (lost,) = accepted["noted"]
    assert str(lost).startswith(f"{len(harness.entries())}:")
    # Whoever saw the newer log finds out all the same.
    with pytest.raises(LogForkedError):
        obtained(again, memory)
    again.close()


def test_an_accepted_rollback_accepts_no_other_log(harness: Harness) -> None:
    path, _ = made(filled(harness))
    other = LogState(size=1, root=bytes(32))
    noted = NotedElsewhere(noted=[other], accepted=AcceptedRollback(reason="whatever"))
    with pytest.raises(LogBrokenError) as caught:
        restored(harness, path, elsewhere(harness), noted=noted)
    assert caught.value.code == "log-forked"
    missing = NotedElsewhere(noted=[bytes(32)], accepted=AcceptedRollback(reason="whatever"))
    with pytest.raises(LogBrokenError):
        restored(harness, path, elsewhere(harness), noted=missing)


def test_mc_27_a_checkpoint_that_another_key_signed_is_refused_whatever_is_accepted(
    harness: Harness, tmp_path: Path
) -> None:
    path, _ = made(filled(harness))
    folder = tmp_path / "other"
    folder.mkdir()
    other = Harness.make(folder, seed="another service of the same name")
    noted = NotedElsewhere(checkpoints=[checkpoint(other)], accepted=AcceptedRollback(reason="whatever"))
    with pytest.raises(SignatureError):
        restored(harness, path, elsewhere(harness), noted=noted)
    other.close()


@pytest.mark.parametrize("reason", ["", "  ", "a\nb", "x" * 1001])
def test_a_rollback_is_accepted_for_a_reason(reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        AcceptedRollback(reason=reason)
    assert caught.value.code == "rollback-reason-invalid"
    AcceptedRollback(reason="x" * 1000)


def test_mc_27_a_database_with_another_signing_key_than_its_log_began_with_does_not_open(harness: Harness) -> None:
    """Whoever has the key-encryption key and the database can put another key there; clients would see a stranger."""
    seed = SecretBytes(b"\x01" * 32)
    wrapped = harness.services.kek.wrap(seed, context=own_context(harness.settings.origin, "identity", "ed25519"))
    write_genuine(harness, "secrets", {"name": "identity"}, wrapped=wrapped.content)
    with pytest.raises(IntegrityError) as caught:
        open_services(harness.settings, clock=harness.clock, random=FakeRandom())
    assert caught.value.code == "identity-mismatch"


def test_a_log_that_names_no_identity_is_nobodys(harness: Harness) -> None:
    public = harness.services.identity.public
    with harness.services.store.reading() as tx:
        assert logged_identity(tx) == public
        require_continuity(tx, public)
        stranger = Ed25519PrivateKey.from_private_bytes(b"\x02" * 32).public_key().public_bytes_raw()
        with pytest.raises(IntegrityError):
            require_continuity(tx, replace(public, public=stranger))
    harness.unprotect("log_entries")
    harness.alter("DELETE FROM log_entries")
    with harness.services.store.reading() as tx, pytest.raises(IntegrityError):
        logged_identity(tx)
