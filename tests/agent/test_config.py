"""The rules: closed, read from where nobody else writes, and for nobody unless they say so."""

import os
import tomllib
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.agent import Peer, load_config
from attest.agent.config import MAX_CONFIG_BYTES, AgentConfig, parse_config
from attest.agent.trusted_files import read_guarded
from attest.errors import AttestError, ConfigurationError
from tests.sealed.made import OWNER, private_pem, public_pem

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "agent.md").read_text(encoding="utf-8")
EXAMPLE = PAGE.split("```toml\n")[1].split("```")[0]
Parsed: TypeAlias = Any  # TOML


def parsed(text: str) -> AgentConfig:
    return parse_config(text.encode(), read=lambda _: public_pem(OWNER), folder=Path("/etc/attest"))


def rejected(text: str) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        parsed(text)
    return caught.value


def test_the_example_of_the_page_is_read_as_it_says() -> None:
    config = parsed(EXAMPLE)
    assert (config.socket.mode, config.socket.group) == (0o660, 2000)
    inference, tokenizer = Peer(uid=10001, gid=1, pid=1), Peer(uid=10002, gid=2000, pid=1)
    assert config.key_for(inference, "llama-70b") is not None
    assert config.key_for(tokenizer, "llama-70b") is None
    assert config.model_for(inference, "embedder") is not None
    assert config.model_for(tokenizer, "embedder") is not None
    for stranger in (Peer(uid=10002, gid=1, pid=1), Peer(uid=0, gid=0, pid=1), Peer(uid=10003, gid=2000, pid=1)):
        assert not config.knows(stranger)
        assert (config.keys_for(stranger), config.models_for(stranger)) == ((), ())
    assert config.models[0].place == "/etc/attest/embedder.sealed"


BASE = '[peers.a]\nuid = 1\n[keys.k]\npeers = ["a"]\n'


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("", "the file"),
        ("[peers.a]\nuid = 1\n", "the file"),
        ("x", "the file"),
        (BASE + "[others]\n", "others"),
        (BASE + "[socket]\nmod = 1\n", "socket.mod"),
        (BASE + '[socket]\nmode = "0777"\n', "socket.mode"),
        (BASE + "[socket]\nmode = 384\n", "socket.mode"),
        (BASE + '[socket]\nmode = "0660"\n', "socket.group"),
        (BASE + '[socket]\ngroup = "users"\n', "socket.group"),
        (BASE + '[socket]\nunchecked_directory = " "\n', "socket.unchecked_directory"),
        (BASE + "[limits]\nconnections = 0\n", "limits.connections"),
        (BASE + "[limits]\nconnections = 1.5\n", "limits.connections"),
        (BASE + "[limits]\nconnections = true\n", "limits.connections"),
        (BASE + "[limits]\nhead_seconds = 0\n", "limits.head_seconds"),
        (BASE + "[limits]\nhead_seconds = inf\n", "limits.head_seconds"),
        (BASE + "[limits]\nhead_seconds = nan\n", "limits.head_seconds"),
        (BASE + "[limits]\nother = 1\n", "limits.other"),
        (BASE + "[peers.b]\n", "peers.b"),
        (BASE + "[peers.b]\nuid = -1\n", "peers.b.uid"),
        (BASE + "[peers.b]\nuid = 65534\n", "peers.b.uid"),
        (BASE + "[peers.b]\ngid = 65534\n", "peers.b.gid"),
        (BASE + "[peers.b]\nuid = 4294967295\n", "peers.b.uid"),
        (BASE + "[peers.b]\nuid = true\n", "peers.b.uid"),
        (BASE + '[peers.b]\nuid = "root"\n', "peers.b.uid"),
        (BASE + '[peers.b]\nuid = 1\nexe = "/bin/sh"\n', "peers.b.exe"),
        (BASE + '[peers."B b"]\nuid = 1\n', "peers"),
        (BASE + "[keys.l]\n", 'keys."l".peers'),
        (BASE + "[keys.l]\npeers = []\n", 'keys."l".peers'),
        (BASE + '[keys.l]\npeers = "a"\n', 'keys."l".peers'),
        (BASE + '[keys.l]\npeers = ["nobody"]\n', 'keys."l".peers'),
        (BASE + '[keys.l]\npeers = ["a"]\nmore = 1\n', 'keys."l".more'),
        (BASE + '[models.m]\ntrust = ["p"]\npeers = ["a"]\n', "models.m.place"),
        (BASE + '[models.m]\nplace = "x"\npeers = ["a"]\n', "models.m.trust"),
        (BASE + '[models.m]\nplace = "x"\ntrust = []\npeers = ["a"]\n', "models.m.trust"),
        (BASE + '[models.m]\nplace = "x"\ntrust = ["p"]\n', "models.m.peers"),
        (BASE + '[models.m]\nplace = "x"\ntrust = ["p"]\npeers = ["a"]\nverify_digests = 1\n',
         "models.m.verify_digests"),
        (BASE + '[models.m]\nplace = "x"\ntrust = ["p"]\npeers = ["a"]\nmodel_id = "00"\n', "models.m.model_id"),
        (BASE + '[models.m]\nplace = "x"\ntrust = ["p"]\npeers = ["a"]\nmodel_id = 1\n', "models.m.model_id"),
        (BASE + '[models."m/n"]\nplace = "x"\ntrust = ["p"]\npeers = ["a"]\n', "models"),
        ("keys = 1\n", "keys"),
        ("[keys]\nk = 1\n", "keys.k"),
        (BASE + "".join(f"[peers.p{n}]\nuid = 1\n" for n in range(256)), "peers"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_it_is_named(text: str, field: str) -> None:
    error = rejected(text)
    assert (error.code, error.field) == ("agent-config-invalid", field)


def test_what_is_no_name_of_a_key_is_refused() -> None:
    assert rejected('[peers.a]\nuid = 1\n[keys."A B"]\npeers = ["a"]\n').code == "key-id-invalid"


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_read_or_refused(text: bytes) -> None:
    try:
        parse_config(text, read=lambda _: b"", folder=Path("/"))
    except AttestError as exc:
        assert exc.exit_code == 2  # noqa: PT017  either is right


def removed(document: Parsed, path: tuple[str, ...]) -> Parsed:
    copy = dict(document)
    if len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = removed(copy[path[0]], path[1:])
    return copy


def leaves(document: Parsed, before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name, value in document.items():
        found.append((*before, name))
        if isinstance(value, dict):
            found += leaves(value, (*before, name))
    return found


def written(document: Parsed, before: str = "") -> str:
    import json

    lines = [f"{json.dumps(k)} = {json.dumps(v)}\n" for k, v in document.items() if not isinstance(v, dict)]
    tables = [(f"{before}{json.dumps(k)}", v) for k, v in document.items() if isinstance(v, dict)]
    return "".join(lines) + "".join(f"[{name}]\n{written(v, f'{name}.')}" for name, v in tables)


@pytest.mark.parametrize("path", leaves(tomllib.loads(EXAMPLE)), ids=".".join)
def test_leaving_something_out_lets_nobody_in(path: tuple[str, ...]) -> None:
    """Whatever is dropped, the file is refused, or nobody gets what he did not get before; save where a rule gets wider
    because half of it is gone, which is what the two halves are for."""
    whole = parsed(EXAMPLE)
    try:
        less = parsed(written(removed(tomllib.loads(EXAMPLE), path)))
    except ConfigurationError:
        return
    if path in {("peers", "tokenizer", "uid"), ("peers", "tokenizer", "gid")}:
        return
    for uid in (0, 10001, 10002, 65534):
        for gid in (0, 2000, 65534):
            peer = Peer(uid=uid, gid=gid, pid=1)
            assert {str(one.reference) for one in less.keys_for(peer)} <= {
                str(one.reference) for one in whole.keys_for(peer)
            }
            assert {one.name for one in less.models_for(peer)} <= {one.name for one in whole.models_for(peer)}


# -- files


def rules(folder: Path) -> Path:
    path = folder / "agent.toml"
    text = BASE + '[models.m]\nplace = "sealed"\ntrust = ["owner.pem"]\npeers = ["a"]\n'
    path.write_text(text)
    path.chmod(0o600)
    (folder / "owner.pem").write_bytes(public_pem(OWNER))
    (folder / "owner.pem").chmod(0o644)
    return path


def failure(path: Path) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_config(path)
    return caught.value.code


def test_files_that_others_may_write_are_refused(folder: Path) -> None:
    path = rules(folder)
    assert load_config(path).models[0].trusted[0].public_numbers() == OWNER.public_key().public_numbers()
    for file in (path, folder / "owner.pem", folder):
        mode = file.stat().st_mode & 0o7777
        for more in (0o020, 0o002):
            file.chmod(mode | more)
            assert failure(path) == "file-writable-by-others", (file, oct(more))
        file.chmod(mode)
    load_config(path)


def test_a_link_counts_as_what_it_leads_to_and_where_it_lies(folder: Path) -> None:
    real = folder / "real"
    real.mkdir(mode=0o700)
    path, link = rules(real), folder / "agent.toml"
    (folder / "owner.pem").write_bytes(public_pem(OWNER))
    link.symlink_to(path)
    load_config(link)
    path.chmod(0o666)
    assert failure(link) == "file-writable-by-others"
    path.chmod(0o600)
    real.chmod(0o777)
    assert failure(link) == "file-writable-by-others"


@pytest.mark.skipif(os.geteuid() != 0, reason="a file of another user takes root (id -u: not 0)")
def test_a_file_of_another_user_is_refused(folder: Path) -> None:
    path = rules(folder)
    os.chown(path, 12345, -1)
    assert failure(path) == "file-writable-by-others"


def test_what_cannot_be_read_is_said(folder: Path) -> None:
    assert failure(folder / "absent") == "file-unreadable"
    assert failure(folder) == "file-unreadable"
    path = rules(folder)
    (folder / "owner.pem").unlink()
    assert failure(path) == "file-unreadable"
    (folder / "owner.pem").write_bytes(private_pem(OWNER))
    assert failure(path) == "model-key-invalid"
    path.write_bytes(b"#" * (MAX_CONFIG_BYTES + 1))
    assert failure(path) == "agent-config-invalid"
    os.mkfifo(folder / "pipe")
    with pytest.raises(ConfigurationError):
        read_guarded(folder / "pipe", what="x", limit=1)
