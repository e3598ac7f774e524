"""SIGHUP: Verifiers and files of keys count from then on, once they were approved, guarded and logged."""

import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from attest.clock import system_clock
from attest.errors import ConfigurationError, VerificationError
from kms.auth.issuers import read_issuers
from kms.auth.keysets import KeySets, read_key_set
from kms.config.configuration import ANCHORS_CHANGED, SETTINGS_CHANGED, log_configuration, read_configuration
from kms.config.settings import load_settings
from kms.config.settings_file import prepare_directory
from kms.domain.actors import local_actor
from kms.domain.people import ChangeKind
from kms.operations.services import initialise
from kms.running.reload import Meaning, key_sets_again, verifiers_again
from tests.kms.oidc import OidcIssuer
from tests.kms.process import ServedProcess
from tests.kms.support import AT, FakeRandom, Harness
from tests.kms.test_passports import (
    ISSUER,
    SIGNING,
    STRANGER,
    Judged,
    asking,
    issuer_of,
    passport_policy,
    refused,
    released,
    trusting,
)
from tests.kms.test_quorum import Board, rule

__all__ = ["trusting"]
LOGIN = OidcIssuer()


@pytest.fixture
def kind() -> str:
    return "sqlite"


@pytest.fixture
def service(harness: Harness, trusting: Callable[..., Harness]) -> Harness:
    harness.add_key("model", policy=passport_policy())
    return trusting()


def meaning_of(harness: Harness) -> Meaning:
    services = harness.services
    configuration = read_configuration(harness.settings, services.anchors)
    log_configuration(services.store, configuration, actor=local_actor(), at=harness.clock())
    return Meaning(harness.settings, services, configuration)


def changes_of(harness: Harness) -> list[Any]:
    return [entry["changed"] for entry in harness.entries() if entry["kind"] == SETTINGS_CHANGED]


def test_mc_20_another_verifier_counts_once_the_log_says_so(service: Harness) -> None:
    meaning = meaning_of(service)
    (again,) = verifiers_again(service.settings, meaning)
    new = Judged().ear(service, of=issuer_of(STRANGER))
    refused(service, asking(service, new))
    (service.folder / "jwks.json").write_bytes(issuer_of(STRANGER).jwks(AT))
    refused(service, asking(service, new))  # until somebody says that it shall be read
    again.read()
    assert released(service, new)
    with pytest.raises(VerificationError):
        service.releases.release(asking(service, Judged().ear(service, of=issuer_of(SIGNING))))
    assert sum(entry["kind"] == ANCHORS_CHANGED for entry in service.entries()) == 1
    assert meaning.current().digest == read_configuration(service.settings, service.services.anchors).digest


@pytest.mark.parametrize("break_it", ["content", "mode", "rule"])
def test_mc_20_what_is_wrong_or_not_approved_changes_nothing(service: Harness, break_it: str) -> None:
    meaning = meaning_of(service)
    (again,) = verifiers_again(service.settings, meaning)
    (service.folder / "jwks.json").write_bytes(issuer_of(STRANGER).jwks(AT))
    if break_it == "content":
        (service.folder / "verifiers.toml").write_text("[[verifier]]\n")
    elif break_it == "mode":
        (service.folder / "jwks.json").chmod(0o666)
    else:
        Board(service).found(rule(ChangeKind.QUORUM), rule(ChangeKind.ANCHORS))
    before = service.entries()
    with pytest.raises(ConfigurationError):
        again.read()
    assert service.entries() == before
    assert released(service, Judged().ear(service))


def key_sets(harness: Harness, meaning: Meaning, said: list[str]) -> KeySets:
    issuers = read_issuers(harness.folder / "issuers.toml")
    told = partial(meaning.key_sets, "callers_issuers_file", issuers)
    sets = KeySets(issuers, fetch=read_key_set, clock=harness.clock, report=said.append, noted=told)
    sets.refresh(everything=True)
    return sets


@pytest.fixture
def asked(harness: Harness) -> Iterator[Harness]:
    """A service that asks its callers who they are."""
    path = harness.folder / "issuers.toml"
    path.write_text(LOGIN.table(harness.folder))
    made = harness.reopened(callers="identified", callers_issuers_file=path)
    yield made
    made.close()


def test_what_a_file_of_keys_says_is_part_of_what_the_settings_mean(asked: Harness) -> None:
    before = read_configuration(asked.settings, asked.services.anchors)
    found = before.settings["callers_issuers_file"]
    assert isinstance(found, list)
    file, keys = found
    assert keys == sha256((asked.folder / "login.jwks").read_bytes()).hexdigest() != file
    (asked.folder / "login.jwks").unlink()
    assert read_configuration(asked.settings, asked.services.anchors).settings["callers_issuers_file"] == [file, None]


def test_new_keys_of_an_issuer_are_logged_before_they_count(asked: Harness) -> None:
    said: list[str] = []
    sets = key_sets(asked, meaning_of(asked), said)
    assert (changes_of(asked), said) == ([[]], [])  # the first reading is what the start has logged
    (issuer,) = sets.issuers
    before = sets.keys(issuer, at=asked.clock())
    newer = OidcIssuer(seed="newer")
    (asked.folder / "login.jwks").write_bytes(newer.jwks())
    # The issuers file is not read again, so what the log says of it stays as it is.
    (asked.folder / "issuers.toml").write_text("")
    key_sets_again("callers", sets).read()
    assert changes_of(asked)[1:] == [["callers_issuers_file"]]
    assert sets.keys(issuer, at=asked.clock()) != before
    last = [entry for entry in asked.entries() if entry["kind"] == SETTINGS_CHANGED]
    first, second = (entry["configuration"]["settings"]["callers_issuers_file"] for entry in last)  # type: ignore[index]
    assert (first[0], second[1]) == (second[0], sha256(newer.jwks()).hexdigest())
    key_sets_again("callers", sets).read()
    assert len(changes_of(asked)) == 2


def test_keys_that_cannot_be_logged_do_not_count(asked: Harness) -> None:
    said: list[str] = []
    sets = key_sets(asked, meaning_of(asked), said)
    (issuer,) = sets.issuers
    before = sets.keys(issuer, at=asked.clock())
    (asked.folder / "login.jwks").write_bytes(OidcIssuer(seed="newer").jwks())
    (asked.folder / "login.jwks").chmod(0o666)
    sets.refresh(everything=True)
    assert "can be written by others" in said[0]
    (asked.folder / "login.jwks").chmod(0o644)
    asked.clock.forward(seconds=-3600)
    sets.refresh(everything=True)
    assert "clock" in said[1]
    asked.clock.forward(seconds=3600)
    assert sets.keys(issuer, at=asked.clock()) == before


@pytest.mark.loopback
def test_a_running_service_reads_them_on_sighup(tmp_path: Path) -> None:
    folder = tmp_path / "svc"
    config = prepare_directory(folder, origin="kms.test/sighup", allow_simulated=True)
    initialise(
        load_settings(flags={}, environ={}, config=config).settings, clock=system_clock, random=FakeRandom("sighup")
    )
    (folder / "issuers.toml").write_text(LOGIN.table(folder))
    (folder / "jwks.json").write_bytes(issuer_of().jwks(system_clock()))
    (folder / "verifiers.toml").write_text(f'[[verifier]]\nissuer = "{ISSUER}"\nkeys = "jwks.json"\n')
    with config.open("a") as file:
        file.write('callers = "identified"\ncallers_issuers_file = "issuers.toml"\nverifiers_file = "verifiers.toml"\n')
    served = ServedProcess.start(config)
    try:
        served.process.send_signal(signal.SIGHUP)
        wanted = {"the Verifiers were reloaded", "the key sets for tokens of callers were reloaded"}
        end = time.monotonic() + 60
        while not all(line in (folder / "serve.log").read_text() for line in wanted):
            assert time.monotonic() < end, (folder / "serve.log").read_text()
            time.sleep(0.05)
    finally:
        assert served.terminate() == 0
