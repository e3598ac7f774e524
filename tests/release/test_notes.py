"""Signed notes and verifier keys, after C2SP signed-note."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import ConfigurationError, SignatureError
from attest.release import VerifierKey, sign_note, verifier_key

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
IDENTITY = verifier_key("kms.example/prod", KEY.public_key())


def test_a_signed_note_gives_back_its_text() -> None:
    note = sign_note("one\ntwo\n", name=IDENTITY.name, key=KEY)
    assert IDENTITY.verify(note) == "one\ntwo\n"
    assert note.splitlines()[-1].startswith("— kms.example/prod ")


def test_a_verifier_key_is_one_line_of_text() -> None:
    assert VerifierKey.parse(IDENTITY.text) == IDENTITY
    assert VerifierKey.parse(f" {IDENTITY.text}\n") == IDENTITY


def test_the_published_example_of_the_go_implementation_parses_and_its_note_verifies() -> None:
    """The key and note in the documentation of golang.org/x/mod/sumdb/note: an independent signer."""
    vkey = VerifierKey.parse("PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")
    note = (
        "If you think cryptography is the answer to your problem,\n"
        "then you don't know what your problem is.\n"
        "\n"
        "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
    )
    assert vkey.verify(note).endswith("problem is.\n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name",
        "name+00000000",
        "name+00000000+",
        "name+00000000+AAAA",
        IDENTITY.text.replace("+", "++", 1),
        IDENTITY.text.replace("prod", "test"),
        IDENTITY.text[:-1],
        IDENTITY.text + "A",
        "a b" + IDENTITY.text[IDENTITY.text.index("+") :],
    ],
)
def test_what_is_no_verifier_key_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError) as outcome:
        VerifierKey.parse(text)
    assert outcome.value.code == "verifier-key-invalid"


def test_a_note_of_another_signer_or_with_any_character_changed_is_refused() -> None:
    note = sign_note("one\n", name=IDENTITY.name, key=KEY)
    other = Ed25519PrivateKey.from_private_bytes(bytes(32))
    forged = sign_note("one\n", name=IDENTITY.name, key=other)
    for wrong in (forged, note.replace("one", "two"), note[:-1], note.rstrip() + "A\n", "", "one\n", "\n\n"):
        with pytest.raises(SignatureError):
            IDENTITY.verify(wrong)
    for position in range(len(note)):
        changed = note[:position] + chr(ord(note[position]) ^ 1) + note[position + 1 :]
        with pytest.raises(SignatureError):
            IDENTITY.verify(changed)


def test_signatures_of_others_are_passed_over() -> None:
    note = sign_note("one\n", name=IDENTITY.name, key=KEY)
    text, _, lines = note.rpartition("\n\n")
    stranger = sign_note("one\n", name="witness.example", key=Ed25519PrivateKey.from_private_bytes(bytes(32)))
    both = f"{text}\n\n{stranger.rpartition(chr(10) * 2)[2]}{lines}"
    assert IDENTITY.verify(both) == "one\n"


@pytest.mark.parametrize("text", ["", "no newline", "an empty\n\nline\n"])
def test_a_text_that_cannot_be_a_note_is_not_signed(text: str) -> None:
    with pytest.raises(ValueError, match="newline"):
        sign_note(text, name=IDENTITY.name, key=KEY)


@pytest.mark.parametrize("name", ["", "two words", "a+b"])
def test_a_name_that_cannot_be_written_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError):
        verifier_key(name, KEY.public_key())


@given(st.text())
def test_any_text_is_a_refused_note(text: str) -> None:
    with pytest.raises(SignatureError):
        IDENTITY.verify(text)


def test_a_line_of_the_key_that_does_not_hold_makes_the_note_invalid() -> None:
    note = sign_note("one\n", name=IDENTITY.name, key=KEY)
    other = sign_note("two\n", name=IDENTITY.name, key=KEY).rpartition("\n\n")[2]
    for wrong in (note + other, note + "— kms.example/prod AAAA\n", note + "nonsense\n", note + note.splitlines()[-1]):
        with pytest.raises(SignatureError):
            IDENTITY.verify(wrong)


def test_a_note_that_not_everybody_reads_alike_is_refused() -> None:
    for text in ("o\x00ne\n", "o\rne\n", "o\x1fne\n"):
        with pytest.raises(SignatureError):
            IDENTITY.verify(sign_note(text, name=IDENTITY.name, key=KEY))
    with pytest.raises(SignatureError):
        IDENTITY.verify("\ud800\n\n" + sign_note("one\n", name=IDENTITY.name, key=KEY).rpartition("\n\n")[2])


def test_a_note_has_as_many_signature_lines_as_are_read_and_not_one_more() -> None:
    note = sign_note("one\n", name=IDENTITY.name, key=KEY)
    more = "— other AAAAAAAA\n"
    assert IDENTITY.verify(note + more * 99) == "one\n"
    with pytest.raises(SignatureError):
        IDENTITY.verify(note + more * 100)


def test_the_published_example_of_c2sp_verifies() -> None:
    key = VerifierKey.parse("example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k")
    line = "Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM="
    assert key.verify(f"This is an example message.\n\n— example.com/foo {line}\n").startswith("This is")
