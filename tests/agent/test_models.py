"""A model and its key: what happens when the lease is lost between two steps."""

from contextlib import closing
from pathlib import Path

import pytest

from attest.agent.config import ServedModel
from attest.agent.keys import AgentKeys
from attest.agent.models import MAX_IDLE_READERS, Model, verified_place
from attest.errors import ConfigurationError, LeaseLostError
from attest.release.names import KeyReference
from attest.sealed.directory import VerifiedDirectory
from tests.agent.running import BIG, FILES, ME, MODEL_KEY, FakeSession, Place


def made(place: Place, session: FakeSession, **more: object) -> Model:
    keyring = AgentKeys(session, ticks=lambda: 0.0)
    session.on_lost = keyring.lost
    return Model(config=place.served(ME), keyring=keyring, service=None, **more)  # type: ignore[arg-type]  # as it is called


def test_a_lease_that_is_lost_while_a_file_is_open_lends_it_to_nobody_else(place: Place) -> None:
    session = FakeSession({MODEL_KEY: place.key})
    with closing(made(place, session)) as model:
        opened = model.opened()
        with opened.reading("config.json") as reader:
            session.lose(MODEL_KEY)
            model.lost(KeyReference.parse(MODEL_KEY))
            assert not model.is_open
            assert bytes(reader.read(0, reader.size)) == FILES["config.json"]  # whoever sends it asks the lease itself
            with pytest.raises(LeaseLostError):
                opened.key.require()
        with pytest.raises(LeaseLostError), opened.reading("config.json"):
            pass
        with pytest.raises(ValueError, match="closed"):
            reader.read(0, 1)
        with pytest.raises(LeaseLostError):
            model.opened()


def test_another_keys_loss_does_not_concern_it(place: Place) -> None:
    with closing(made(place, FakeSession({MODEL_KEY: place.key}))) as model:
        opened = model.opened()
        model.lost(KeyReference.parse("other@1"))
        assert model.opened() is opened


def test_few_readers_are_kept_and_each_is_used_again(place: Place) -> None:
    with closing(made(place, FakeSession({MODEL_KEY: place.key}))) as model:
        opened = model.opened()
        with opened.reading(BIG) as first:
            pass
        with opened.reading(BIG) as again:
            assert again is first
            with opened.reading(BIG) as other:
                assert other is not first
        readers = [opened.reading(name) for name in (*FILES, *FILES)]
        lent = [one.__enter__() for one in readers]
        for one in readers:
            one.__exit__(None, None, None)
        still = []
        for reader in lent:
            try:
                reader.read(0, 0)
            except ValueError:
                continue
            still.append(reader)
        assert len(still) <= MAX_IDLE_READERS


def test_no_key_is_asked_for_before_the_model_is_verified(place: Place) -> None:
    session = FakeSession({MODEL_KEY: place.key})

    def fail(_: ServedModel) -> VerifiedDirectory:
        raise ConfigurationError("no", code="sealed-url-invalid")

    with closing(made(place, session, verify=fail)) as model, pytest.raises(ConfigurationError):
        model.opened()
    assert session.asked == []


def test_a_wrong_key_opens_nothing(place: Place, folder: Path) -> None:
    from attest.errors import SealedTamperError

    session = FakeSession({MODEL_KEY: bytes(32)})
    with closing(made(place, session)) as model, pytest.raises(SealedTamperError) as caught:
        model.opened()
    assert caught.value.code == "sealed-key-mismatch"
    assert verified_place(place.served(ME)).manifest.entry(BIG) is not None
