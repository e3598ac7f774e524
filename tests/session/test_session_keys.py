"""What a session gives: keys, asked for once, told to nobody else."""

import copy
import json
import logging
import os
import pickle
import threading
from datetime import timedelta

import pytest

from attest.errors import ConfigurationError
from attest.release import KeyReference
from attest.session import SessionKey
from tests.kms.leaks import found_in_texts
from tests.kms.support import MATERIAL
from tests.session.acts import DAY, TWO_THIRDS, disable, live
from tests.session.line import Scene

# -- keys


def test_a_key_is_asked_for_once_as_long_as_its_lease_lives(scene: Scene) -> None:
    with scene.session() as session:
        key = session.key("model")
        assert key.material == MATERIAL
        assert (key.export(), len(key)) == (MATERIAL, 32)
        assert session.key("model") is key
        assert scene.line.releases == 1
        assert (key.name, key.version, key.purpose) == ("model", 1, "model-key")
        assert key.expires_at == scene.harness.clock() + timedelta(days=1)
        assert key.seconds_left == DAY
        assert session.held == (key,)
        assert live(scene) == [key.lease_id]
        assert json.loads(key.log_entry)["outcome"] == "allow"
        assert scene.harness.services.identity.public.verify(key.receipt)
        assert scene.harness.services.identity.public.verify(key.log_proof.partition("\n\n")[2])
        assert len(key.policy_digest) == 32


def test_several_keys_come_in_one_request_as_far_as_they_are_not_held(scene: Scene) -> None:
    with scene.session() as session:
        (model,) = session.keys("model")
        assert scene.line.releases == 1
        both = session.keys("other", "model", "other")
        assert [key.name for key in both] == ["other", "model"]
        assert both[1] is model
        assert scene.line.releases == 2
        assert scene.harness.decisions()[-1]["requested"] == ["other"]


def test_a_version_is_asked_for_by_number_and_is_another_key_than_the_current_one(scene: Scene) -> None:
    with scene.session() as session:
        first = session.key("model", 1)
        assert (first.reference, session.key("model@1")) == (KeyReference.parse("model@1"), first)
        assert session.key("model") is not first
        with pytest.raises(ValueError, match="names a version already"):
            session.key("model@1", 1)


def test_what_is_no_name_is_no_request(scene: Scene) -> None:
    with scene.session() as session:
        for wrong in ("MODEL", "", "a/b/c", "model@0"):
            with pytest.raises(ConfigurationError):
                session.key(wrong)
        with pytest.raises(ValueError, match="1 to 16 keys, not 0"):
            session.keys()
        with pytest.raises(ValueError, match="1 to 16 keys, not 17"):
            session.keys(*(f"k{number}" for number in range(17)))
    assert not scene.line.asked


def test_threads_that_race_for_one_key_make_one_request(scene: Scene) -> None:
    with scene.session() as session:
        together = threading.Barrier(8)
        found: list[SessionKey] = []

        def ask() -> None:
            together.wait()
            found.append(session.key("model"))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({id(key) for key in found}) == 1
        assert len(found) == 8
        assert scene.line.releases == 1


# -- secrets


def test_no_key_in_repr_copy_pickle_error_log_or_environment(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), scene.session() as session:
        key = session.key("model")
        for thing in (key, session, session.renew, key._held.lease.released):  # noqa: SLF001
            with pytest.raises(TypeError):
                pickle.dumps(thing)
        with pytest.raises(TypeError):
            copy.copy(key)
        shown = {"key": repr(key), "held": repr(key._held), "session": repr(session), "vars": repr(vars(session))}  # noqa: SLF001
        disable(scene)
        scene.harness.clock.forward(seconds=TWO_THIRDS)
        session.renew()
        shown |= {"error": repr(key.lost), "log": caplog.text, "environment": repr(dict(os.environ))}
    assert found_in_texts(shown, (MATERIAL,)) == []
    assert shown["key"] == "SessionKey('model', version=1, valid, <32 bytes>)"
    assert shown["session"] == "Session('http://kms.test', holds [model])"
