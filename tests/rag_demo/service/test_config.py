"""The service's one file: closed, checked as a whole, and paths meant from where it lies."""

import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import pytest

from attest.errors import AttestError, ConfigurationError
from rag_demo.enclave.answers import LanguageModel
from rag_demo.enclave.service.config import MAX_CONFIG_BYTES, load_config, parse_config
from rag_demo.enclave.service.settings import EnclaveSettings, ServiceLimits, relaxations
from tests.rag_demo.service.support import VERIFIER

WHOLE = f"""
name = "rag.example"
authorities = ["10.0.0.7:8460"]
[listen]
host = "::1"
port = 0
[machine]
simulate = "azure-tdx"
gpus = 2
endorsements = ["vendors", "/etc/vendors.cbor"]
[model]
place = "minilm.sealed"
trust = ["owner.pub"]
model_id = "000102030405060708090a0b0c0d0e0f"
[model.key]
name = "acme/minilm@3"
url = "https://kms.model.example"
key = "{VERIFIER}"
policy = "kms-policy.yaml"
tls_ca = "ca.pem"
endorsements = ["kms-vendors"]
[database]
file = "documents.db"
[database.key]
name = "rag-database"
url = "https://kms.documents.example"
key = "{VERIFIER}"
[channel]
x25519 = "browsers of before"
[documents]
unconfined = "a kernel of before"
[llm]
url = "http://127.0.0.1:8000/v1"
model = "small"
inside_boundary = "in this very machine"
[limits]
questions = 3
question_seconds = 5
"""
PROMPT_KEY = f'{{name = "p", url = "http://k", key = "{VERIFIER}"}}'
LEAST = f"""
name = "rag.example"
model = {{place = "m", trust = ["o"], key = {{name = "a", url = "http://k", key = "{VERIFIER}"}}}}
database = {{file = "d", key = {{name = "b", url = "http://k", key = "{VERIFIER}"}}}}
"""


def parsed(text: str, changes: Mapping[str, object] | None = None) -> EnclaveSettings:
    return parse_config(text.encode(), folder=Path("/srv/rag"), changes=changes)


def test_everything_can_be_said() -> None:
    settings = parsed(WHOLE)
    assert (settings.name, settings.authorities, settings.host, settings.port) == (
        "rag.example",
        ("10.0.0.7:8460",),
        "::1",
        0,
    )
    assert (settings.machine.simulate, settings.machine.gpus, settings.simulated) == ("azure-tdx", 2, True)
    assert settings.machine.endorsements == (Path("/srv/rag/vendors"), Path("/etc/vendors.cbor"))
    assert settings.model.place == Path("/srv/rag/minilm.sealed")
    assert settings.model.trust == (Path("/srv/rag/owner.pub"),)
    assert settings.model.model_id == bytes(range(16))
    key = settings.model_key
    assert (key.name, key.service.url, key.service.service.text) == (
        "acme/minilm@3",
        "https://kms.model.example",
        VERIFIER,
    )
    assert (key.service.policy, key.service.tls_ca) == (Path("/srv/rag/kms-policy.yaml"), Path("/srv/rag/ca.pem"))
    assert key.service.endorsements == (Path("/srv/rag/kms-vendors"),)
    assert settings.database == Path("/srv/rag/documents.db")
    assert settings.unconfined_documents == "a kernel of before"
    assert settings.x25519 == "browsers of before"
    assert settings.llm is not None
    assert (settings.llm.model, settings.llm.inside_boundary) == ("small", "in this very machine")
    assert (settings.limits.questions, settings.limits.question_seconds) == (3, 5.0)


def test_little_has_to_be_said_and_the_rest_is_cautious() -> None:
    settings = parsed(LEAST)
    assert (settings.host, settings.simulated, settings.llm, settings.prompt_key) == ("127.0.0.1", False, None, None)
    assert (settings.unconfined_documents, settings.x25519) == (None, None)
    assert settings.limits == ServiceLimits()


def test_the_command_line_comes_before_the_file() -> None:
    settings = parsed(LEAST, {"listen.port": 0, "machine.simulate": "snp", "machine.gpus": 1, "listen.host": None})
    assert (settings.port, settings.machine.simulate, settings.machine.gpus) == (0, "snp", 1)
    with pytest.raises(ConfigurationError):
        parsed("listen = 5\n" + LEAST, {"listen.port": 0})


def test_the_environment_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTEST_KMS_URL", "http://evil")
    monkeypatch.setenv("ATTEST_KMS_KEY", VERIFIER)
    with pytest.raises(ConfigurationError) as refused:
        parsed(LEAST.replace('url = "http://k", ', "", 1))
    assert refused.value.field == "model.key"


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('name = "rag.example"\n', "", "name"),
        ('name = "rag.example"', "name = 5", "name"),
        ('name = "rag.example"', 'name = "Rag Example"', "name"),
        ('name = "rag.example"', 'name = "a\\u0000"', "name"),
        ('name = "rag.example"', 'name = "rag.example"\nmore = 1', "more"),
        ("[listen]", "[listen]\nmore = 1", "listen.more"),
        ("port = 0", "port = 65536", "listen.port"),
        ("port = 0", "port = true", "listen.port"),
        ("port = 0", 'port = "80"', "listen.port"),
        ('simulate = "azure-tdx"', 'simulate = "sgx"', "machine.simulate"),
        ('simulate = "azure-tdx"\n', "", "machine.gpus"),
        ("gpus = 2", "gpus = 9", "machine.gpus"),
        ("gpus = 2", "gpus = 2\nwith_gpus = 1", "machine.with_gpus"),
        ('trust = ["owner.pub"]', "trust = []", "model.trust"),
        ('trust = ["owner.pub"]', 'trust = "owner.pub"', "model.trust"),
        ('trust = ["owner.pub"]\n', "", "model.trust"),
        ('place = "minilm.sealed"\n', "", "model.place"),
        ('model_id = "0001', 'model_id = "00', "model.model_id"),
        ('name = "acme/minilm@3"', 'name = "../minilm"', None),
        ('name = "acme/minilm@3"\n', "", "model.key.name"),
        ('url = "https://kms.model.example"', 'url = "ftp://x"', "model.key"),
        ('url = "https://kms.model.example"\n', "", "model.key"),
        ('policy = "kms-policy.yaml"', 'polizy = "x"', "model.key.polizy"),
        ('policy = "kms-policy.yaml"', 'service = "x"', "model.key.service"),
        ('policy = "kms-policy.yaml"', "origins = {}", "model.key.origins"),
        ('policy = "kms-policy.yaml"', "policy = 5", "model.key"),
        (f'key = "{VERIFIER}"\npolicy', 'key = "kms+0+AA"\npolicy', "model.key"),
        ('file = "documents.db"\n', "", "database.file"),
        ('[documents]\nunconfined = "a kernel of before"', '[documents]\nunconfined = " "', "documents.unconfined"),
        ('url = "http://127.0.0.1:8000/v1"', 'url = "127.0.0.1"', "llm.url"),
        ('model = "small"', 'modell = "small"', "llm.modell"),
        ("questions = 3", "questions = 0", "limits.questions"),
        ("questions = 3", "questions = 1.5", "limits.questions"),
        ("questions = 3", "question = 3", "limits.question"),
        ("question_seconds = 5", "question_seconds = nan", "limits.question_seconds"),
        ("question_seconds = 5", "question_seconds = inf", "limits.question_seconds"),
        ("[limits]", '[prompt_key]\nname = "p"\nurl = "http://k"\nkey = "' + VERIFIER + '"\n[limits]', "replay_window"),
        ('name = "rag.example"', 'name = "rag.example"\nreplay_window = "r.db"', "replay_window"),
        ('x25519 = "browsers of before"', "x25519 = true", "channel.x25519"),
        (
            'name = "rag.example"\n',
            f'name = "rag.example"\nreplay_window = "r"\nprompt_key = {PROMPT_KEY}\n',
            "channel.x25519",
        ),
        ("[limits]", "[limits", "the file"),
        ("[limits]", "[limits]\nquestions = 3", "the file"),
    ],
)
def test_what_is_wrong_is_named_by_its_place(old: str, new: str, field: str | None) -> None:
    assert old in WHOLE
    with pytest.raises(ConfigurationError) as refused:
        parsed(WHOLE.replace(old, new, 1))
    if field is not None:
        assert (refused.value.code, refused.value.field) == ("rag-config-invalid", field)
        assert field in refused.value.message


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ('place = "minilm', 'plaec = "minilm', "there is 'plaec': did you mean 'place'?"),
        ("trust = [", "trusts = [", "there is 'trusts': did you mean 'trust'?"),
        ("question_seconds = 5", "question_secnds = 5", "did you mean 'question_seconds'?"),
        ('policy = "kms-policy.yaml"', 'polizy = "x"', "did you mean 'policy'?"),
        ("[limits]", "[limit]", "did you mean 'limits'?"),
        ("[listen]", "[listen]\nzzz = 1", None),
        ('place = "minilm.sealed"\n', "", None),
    ],
)
def test_a_slip_of_the_pen_is_told_with_what_was_meant(old: str, new: str, hint: str | None) -> None:
    assert old in WHOLE
    with pytest.raises(ConfigurationError) as refused:
        parsed(WHOLE.replace(old, new, 1))
    assert refused.value.hint == hint


def test_every_limit_can_be_set_and_has_bounds() -> None:
    for one in fields(ServiceLimits):
        assert parsed(f"{LEAST}[limits]\n{one.name} = {one.default}").limits == ServiceLimits()
        for wrong in ("-1", "0", "1e99", "true", '"1"', "[]"):
            with pytest.raises(ConfigurationError) as refused:
                parsed(f"{LEAST}[limits]\n{one.name} = {wrong}")
            assert refused.value.field == f"limits.{one.name}"


@pytest.mark.parametrize(
    "text", [b"", b"\xff", b"\0", b"[" * 5000, b"a = " + b"[" * 100_000, b"x" * (MAX_CONFIG_BYTES + 1), b"=\n"]
)
def test_what_is_no_configuration_is_refused(text: bytes) -> None:
    with pytest.raises(AttestError) as refused:
        parse_config(text, folder=Path())
    assert refused.value.code == "rag-config-invalid"


@pytest.mark.parametrize("setting", ["url", "inside_boundary"])
def test_documents_lie_in_a_file_and_nowhere_else(setting: str) -> None:
    in_file = 'file = "documents.db"'
    with pytest.raises(ConfigurationError) as refused:
        parsed(WHOLE.replace(in_file, f'{in_file}\n{setting} = "postgresql://x"'))
    assert refused.value.field == f"database.{setting}"


PAGE = (Path(__file__).parents[3] / "docs" / "rag.md").read_text()


def test_the_page_shows_a_file_that_is_read() -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    text = re.sub(r'^key(_file)? = "[^"]*"', f'key = "{VERIFIER}"', text, flags=re.MULTILINE)
    settings = parsed(text)
    assert settings.limits.renew_seconds == 300
    assert settings.llm is not None
    assert settings.database_key.service.policy == Path("/srv/rag/documents-kms-policy.yaml")


def test_the_page_names_every_limit_and_no_other() -> None:
    table = PAGE.partition("## Limits")[2]
    named = {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert named == {one.name for one in fields(ServiceLimits)}


def test_a_prompt_key_has_a_window_that_all_share() -> None:
    key = f'[prompt_key]\nname = "p"\nurl = "http://k"\nkey = "{VERIFIER}"\n'
    assert parsed(f'replay_window = "r.db"\n{LEAST}{key}').replay_window == "/srv/rag/r.db"
    url = "postgresql://rag@db/replays"
    assert parsed(f'replay_window = "{url}"\n{LEAST}{key}').replay_window == url


def test_a_prompt_key_without_an_address_is_of_the_databases_service() -> None:
    settings = parsed(f'replay_window = "r.db"\n{LEAST}', {"prompt_key.name": "prompts"})
    assert settings.prompt_key is not None
    assert (settings.prompt_key.name, settings.prompt_key.service) == ("prompts", settings.database_key.service)
    for wrong in ('name = "a/b/c"', 'key = "x"', 'name = "p"\npolicy = "x"'):
        with pytest.raises(ConfigurationError):
            parsed(f'replay_window = "r.db"\n{LEAST}[prompt_key]\n{wrong}\n')


def test_a_file_that_others_may_write_decides_nothing(tmp_path: Path) -> None:
    (tmp_path / "least.toml").write_text(LEAST)
    (tmp_path / "least.toml").chmod(0o666)
    with pytest.raises(ConfigurationError) as refused:
        load_config(tmp_path / "least.toml")
    assert refused.value.code == "file-writable-by-others"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load_config(tmp_path / "none.toml")
    assert refused.value.code == "file-unreadable"
    (tmp_path / "least.toml").write_text(LEAST)
    assert load_config(tmp_path / "least.toml").model.place == tmp_path / "m"


def test_a_reason_counts_for_the_address_that_it_was_given_for_and_no_other() -> None:
    here, there = "http://10.1.2.3:8000/v1", "http://192.0.2.7:80/v1"
    text = WHOLE.replace("http://127.0.0.1:8000/v1", here)
    (kept, moved) = (parsed(text, {"llm.url": url}).llm for url in (here, there))
    assert kept is not None
    assert kept.inside_boundary == "in this very machine"
    assert moved is not None
    assert (moved.url, moved.inside_boundary) == (there, None)
    with pytest.raises(ConfigurationError) as refused:
        LanguageModel(url=moved.url, model=moved.model, inside_boundary=moved.inside_boundary)
    assert refused.value.code == "rag-llm-outside"


def test_no_refusal_repeats_a_password() -> None:
    url = "postgresql://rag:hunter2@db/replays"
    for text in (f'replay_window = "{url}"\n{LEAST}', re.sub("database = .*", f'database = "{url}"', LEAST)):
        with pytest.raises(ConfigurationError) as refused:
            parsed(text)
        assert "hunter2" not in f"{refused.value.message} {refused.value.got}"


def test_every_relaxed_switch_is_named_with_its_reason() -> None:
    text = WHOLE.replace('policy = "kms-policy.yaml"', 'unchecked_tls = "a tunnel of ours"\nallow_simulated = true')
    assert [one.partition(":")[0].partition(" ")[0] for one in relaxations(parsed(text))] == [
        "machine.simulate",
        "model.key.allow_simulated",
        "model.key.unchecked_tls",
        "channel.x25519",
        "documents.unconfined",
        "llm.inside_boundary",
    ]
    for reason in ("a tunnel of ours", "browsers of before", "a kernel of before", "in this very machine"):
        assert any(one.endswith(reason) for one in relaxations(parsed(text)))
    assert list(relaxations(parsed(LEAST))) == []
    key = f'[prompt_key]\nname = "p"\nurl = "http://k"\nkey = "{VERIFIER}"\nallow_simulated = true\n'
    (said,) = relaxations(parsed(f'replay_window = "r.db"\n{LEAST}{key}'))
    assert said.startswith("prompt_key.allow_simulated")
