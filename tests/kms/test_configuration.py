"""What the settings mean is in the log: each change once, with what changed, whichever replica starts first."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from attest import TrustAnchors
from kms.config.configuration import (
    ANCHORS_CHANGED,
    DIGESTED,
    LEFT_OUT,
    SETTINGS_CHANGED,
    Configuration,
    log_configuration,
    read_configuration,
)
from kms.config.external_files import read_anchors
from kms.config.settings import Settings
from kms.domain.actors import Actor, Means
from kms.domain.errors import IntegrityError
from kms.operations.replay import LoggedState
from tests.kms.stores import write_genuine
from tests.kms.support import Harness, settings_for

ACTOR = Actor(name="somebody", means=Means.LOCAL)
REMOVING = 'schema = "attest.anchors/1"\nremove = ["ARK-Milan"]\n'


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def meaning(harness: Harness, **changes: Any) -> Configuration:  # noqa: ANN401  settings
    settings = settings_for(harness.folder, **({"database": harness.settings.database} | changes))
    return read_configuration(settings, read_anchors(settings))


def logged(harness: Harness, configuration: Configuration) -> bool:
    return log_configuration(harness.services.store, configuration, actor=ACTOR, at=harness.clock())


def changes_of(harness: Harness) -> list[dict[str, Any]]:
    return [entry for entry in harness.entries() if entry["kind"] in {SETTINGS_CHANGED, ANCHORS_CHANGED}]


def test_the_first_start_is_logged_and_the_next_is_not(harness: Harness) -> None:
    configuration = meaning(harness)
    assert logged(harness, configuration)
    assert not logged(harness, configuration)
    (entry,) = changes_of(harness)
    assert entry["configuration_sha256"] == configuration.digest.hex() == sha256(configuration.raw).hexdigest()
    assert (entry["before_sha256"], entry["changed"]) == (None, [])
    assert entry["configuration"] == dict(configuration.document)
    assert entry["actor"] == {"name": "somebody", "means": "local"}


def test_a_changed_setting_is_logged_by_name_with_the_digest_of_before(harness: Harness) -> None:
    before, after = meaning(harness), meaning(harness, challenge_seconds=60)
    for configuration in (before, after, before):
        assert logged(harness, configuration)
    _, second, third = changes_of(harness)
    assert (second["changed"], second["before_sha256"]) == (["challenge_seconds"], before.digest.hex())
    assert (third["changed"], third["before_sha256"]) == (["challenge_seconds"], after.digest.hex())


def test_changed_anchors_are_an_entry_of_their_own_that_names_them(harness: Harness) -> None:
    file = harness.folder / "anchors.toml"
    file.write_text(REMOVING)
    before, after = meaning(harness), meaning(harness, anchors_file=file)
    logged(harness, before)
    logged(harness, after)
    _, settings, anchors = changes_of(harness)
    assert (settings["kind"], anchors["kind"]) == (SETTINGS_CHANGED, ANCHORS_CHANGED)
    assert settings["changed"] == ["anchors_file"]
    assert anchors["added"] == []
    (removed,) = anchors["removed"]
    assert removed.endswith(" ARK-Milan")
    assert anchors["before_sha256"] == before.anchors_digest.hex()
    assert anchors["anchors_sha256"] == settings["anchors_sha256"] == after.anchors_digest.hex()


def test_accepting_simulation_is_a_change_of_settings_and_of_anchors(harness: Harness) -> None:
    logged(harness, meaning(harness, allow_simulated=False))
    logged(harness, meaning(harness, allow_simulated=True))
    _, settings, anchors = changes_of(harness)
    assert settings["changed"] == ["allow_simulated"]
    assert len(anchors["added"]) == len(TrustAnchors.simulation().anchors)


def test_mc_37_of_replicas_that_start_at_once_one_writes(harness: Harness) -> None:
    configuration = meaning(harness)
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: logged(harness, configuration), range(8)))
    assert done.count(True) == 1
    assert len(changes_of(harness)) == 1


def test_every_setting_is_part_of_it_or_left_out_by_name_or_names_a_file(harness: Harness) -> None:
    """A setting of a new kind has to be thought about: nothing that decides is left out by accident."""
    configuration = meaning(harness)
    for name, field in Settings.model_fields.items():
        if name in DIGESTED or not ("Path" in str(field.annotation) or name in LEFT_OUT):
            assert name in configuration.settings, name
        elif name in LEFT_OUT:
            assert name not in configuration.settings, name


def test_replicas_may_differ_in_places_and_limits_alone(harness: Harness, tmp_path: Path) -> None:
    base = meaning(harness)
    elsewhere = {"host": "192.0.2.7", "port": 1, "max_concurrent": 3, "workers": 2, "kek_file": tmp_path / "k"}
    assert meaning(harness, **elsewhere).digest == base.digest
    for change in ({"publish_entries": True}, {"fetch": True}, {"pcs_url": "https://pccs.example"}):
        assert meaning(harness, **change).digest != base.digest


def test_a_file_stands_for_its_content(harness: Harness) -> None:
    one, two = harness.folder / "one.toml", harness.folder / "two.toml"
    one.write_text(REMOVING)
    two.write_text(REMOVING)
    digests = {meaning(harness, anchors_file=file).digest for file in (one, two)}
    assert len(digests) == 1
    two.write_text(REMOVING + "\n")
    assert meaning(harness, anchors_file=two).digest not in digests


def differences(harness: Harness) -> list[str]:
    state = LoggedState()
    with harness.services.store.examining() as tx:
        return [one.line for one in (*state.advance_to_end(tx), *state.differences(tx))]


def test_what_was_remembered_and_altered_is_found(harness: Harness) -> None:
    logged(harness, meaning(harness))
    assert differences(harness) == []
    for value in (meaning(harness, fetch=True).raw, b"nonsense"):
        harness.alter("UPDATE meta SET value = ? WHERE name = 'configuration'", value)
        (found,) = differences(harness)
        assert found.startswith("configuration: digest ")
    write_genuine(harness, "meta", {"name": "configuration"}, value=b"nonsense")
    with pytest.raises(IntegrityError):
        logged(harness, meaning(harness))


def test_a_clock_that_went_back_logs_nothing(harness: Harness) -> None:
    from kms.domain.errors import UnavailableError

    harness.clock.at -= timedelta(hours=1)
    with pytest.raises(UnavailableError):
        logged(harness, meaning(harness))
    assert changes_of(harness) == []
