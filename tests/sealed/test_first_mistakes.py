"""What people get wrong on their first day with a sealed model, and what they are told."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attest.errors import AttestError
from attest.release.notes import VerifierKey
from attest.release.refusals import refused
from attest.sealed import open_directory
from attest.sealed.model_unsealer import require_memory
from tests.sealed.made import FILES, KEY, OWNER, STRANGER, Place

TRUSTED = (OWNER.public_key(),)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.seal()
    return made


def said(mistake: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(AttestError) as caught:
        mistake()
    assert caught.value.hint, "it has to say what to do"
    return caught.value.code, caught.value.message


def test_a_path_with_a_typo_and_a_model_that_is_not_sealed_are_told_as_such(place: Place) -> None:
    for folder in (place.folder / "seald", place.model, place.sealed / "sealed.json"):
        code, message = said(lambda folder=folder: open_directory(folder, key=KEY, trusted=TRUSTED))  # type: ignore[misc]  # mypy infers no default of a lambda
        assert (code, message) == ("sealed-file-missing", f"{folder} is not a sealed model: there is no model.sig")


def test_a_signature_that_may_not_be_read_is_not_told_as_missing(place: Place) -> None:
    (place.sealed / "model.sig").unlink()
    (place.sealed / "model.sig").mkdir()
    with pytest.raises(AttestError) as caught:
        open_directory(place.sealed, key=KEY, trusted=TRUSTED)
    assert caught.value.code == "sealed-source-not-a-file"


def test_another_owner_and_another_key_have_a_hint(place: Place) -> None:
    assert said(lambda: open_directory(place.sealed, key=KEY, trusted=(STRANGER.public_key(),)))[0] == (
        "model-signature-untrusted"
    )
    assert said(lambda: open_directory(place.sealed, key=KEY[::-1], trusted=TRUSTED))[0] == "sealed-key-mismatch"
    assert said(lambda: open_directory(place.sealed, key=KEY[:-1], trusted=TRUSTED))[0] == "sealed-key-length"


@pytest.mark.parametrize("trusted", [OWNER.public_key(), ("owner.pub",), "owner.pub", (OWNER,), None])
def test_what_is_no_tuple_of_public_keys_is_wrong_use_and_says_what_is_right(place: Place, trusted: Any) -> None:  # noqa: ANN401  the point
    with pytest.raises(TypeError, match=r"tuple of public keys.*read_trusted_key"):
        open_directory(place.sealed, key=KEY, trusted=trusted)


def test_a_session_is_a_key(place: Place) -> None:
    class Session:
        def key(self, name: str, /) -> bytes:
            assert name == "model@1"
            return KEY

    with open_directory(place.sealed, key=Session(), trusted=TRUSTED) as model:
        assert model.read("config.json") == FILES["config.json"]
    with pytest.raises(TypeError, match="not str"):
        open_directory(place.sealed, key="model.key", trusted=TRUSTED)  # type: ignore[arg-type]  # the point


@pytest.mark.parametrize("purpose", ["secret", "prompt-key"])
def test_what_is_no_model_key_opens_no_model(place: Place, purpose: str) -> None:
    class Session:
        def key(self, name: str, /) -> SimpleNamespace:
            return SimpleNamespace(material=memoryview(KEY), purpose=purpose if name == "model@1" else "model-key")

    code, message = said(lambda: open_directory(place.sealed, key=Session(), trusted=TRUSTED))
    assert (code, message) == ("sealed-key-purpose", f"model@1 is a {purpose}, which seals no model")


def test_a_target_in_a_folder_that_is_not_there_is_not_told_of_disks(tmp_path: Path) -> None:
    code, message = said(lambda: require_memory(tmp_path / "no" / "such", allow_disk=False))
    assert (code, "is not a folder" in message) == ("output-unwritable", True)


@pytest.mark.parametrize("text", ["", "x", "kms.example", "kms.example/prod+0f3a…", "kms.example/prod+00000000+AQ=="])
def test_half_a_verifier_key_says_where_it_stands(text: str) -> None:
    said(lambda: VerifierKey.parse(text))


@pytest.mark.parametrize("code", ["policy-not-met", "key-unknown"])
def test_a_refusal_says_what_to_look_at_beside_the_services_own_words(code: str) -> None:
    told = refused({"code": code, "detail": "no", "hint": "ask us"}, 403).hint
    assert told is not None
    assert told.endswith("; ask us")
    assert "ask us" not in str(refused({"code": code}, 403).hint)
    assert refused({"code": "another"}, 403).hint is None
