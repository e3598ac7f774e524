"""The user's token: made once, its owner's alone, and shown by nothing."""

import hmac
import os
import pickle
import threading
from hashlib import sha256
from pathlib import Path

import pytest

from attest.encoding import base64url_bytes, base64url_text
from attest.errors import ConfigurationError
from rag_demo.client.token import UserToken, default_token_file, token_in

VALUE = bytes(range(100, 132))


def test_it_is_made_once_and_read_ever_after(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "folder" / "token"
    made = token_in(file, random=os.urandom)
    assert token_in(file, random=lambda _: b"never called").header("rag.example") == made.header("rag.example")
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert list(file.parent.iterdir()) == [file]
    assert made.header("rag.example") != token_in(tmp_path / "other", random=os.urandom).header("rag.example")


def test_two_that_begin_at_once_get_the_same(tmp_path: Path) -> None:
    file, found = tmp_path / "token", set[str]()

    def make() -> None:
        found.add(token_in(file, random=os.urandom).header("rag.example"))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(found) == 1
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o610, 0o602])
def test_one_that_others_can_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "token"
    token_in(file, random=os.urandom)
    file.chmod(mode)
    with pytest.raises(ConfigurationError) as refused:
        token_in(file, random=os.urandom)
    assert refused.value.code == "rag-token-unusable"
    assert refused.value.hint


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        base64url_text(VALUE[:31]).encode(),
        base64url_text(VALUE + b"x").encode(),
        b"*" * 43,
        b"\xff" * 43,
        base64url_text(VALUE).encode() + b" x",
        base64url_text(VALUE).encode() + b"=",
        bytes(1000),
    ],
)
def test_a_file_that_holds_none_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(ConfigurationError) as refused:
        token_in(file, random=os.urandom)
    assert refused.value.code == "rag-token-unusable"
    assert file.read_bytes() == content
    assert base64url_text(VALUE) not in str(refused.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    real = tmp_path / "real"
    token_in(real, random=os.urandom)
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "folder").mkdir(mode=0o700)
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("link", "folder", "pipe", "real/below"):
        with pytest.raises(ConfigurationError) as refused:
            token_in(tmp_path / name, random=os.urandom)
        assert refused.value.code == "rag-token-unusable"


def test_it_shows_itself_nowhere() -> None:
    token = UserToken(VALUE)
    assert base64url_text(VALUE) not in token.header("rag.example")
    assert base64url_text(VALUE) not in repr(token)
    assert VALUE.hex() not in repr(token)
    with pytest.raises(TypeError):
        pickle.dumps(token)
    with pytest.raises(ValueError, match="32 bytes"):
        UserToken(VALUE[:31])


def test_each_service_sees_another_value_and_nobody_gets_from_one_to_the_other() -> None:
    token, shown = UserToken(VALUE), set[bytes]()
    for name in ("rag.example", "rag.example:8460", "rag.example/x", "rag.exampl"):
        scheme, _, text = token.header(name).partition(" ")
        assert scheme == "Bearer"
        shown.add(base64url_bytes(text, what="token"))
        again = hmac.new(VALUE, b"rag token v1\0" + name.encode(), sha256).digest()
        assert again in shown
        # Whoever has what one service was shown finds nothing that another was.
        assert UserToken(again).header("rag.example") != token.header("rag.example")
    assert len(shown) == 4
    assert VALUE not in shown


def test_it_lies_where_the_user_keeps_state() -> None:
    assert default_token_file({"HOME": "/person"}) == Path("/person/.local/state/attest-rag/token")
    assert default_token_file({"HOME": "/person", "XDG_STATE_HOME": "/s"}) == Path("/s/attest-rag/token")
    assert default_token_file({"HOME": "/person", "XDG_STATE_HOME": "relative"}).is_absolute()
