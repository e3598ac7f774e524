"""EARs on the command line: keys, key sets, writing a token of a result, and reading one."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from attest.checks import Unchecked
from attest.cli.ear import token
from attest.cli.ear_output import TokenRequest, prepare_token, token_options, write_token
from attest.cli.options import Network, VerificationOptions
from attest.cli.tokens import open_token, require_for_tokens
from attest.errors import AttestError, ConfigurationError, EndorsementError
from attest.policy.loader import Policy
from attest.results.ear_verify import ExpectedEar, verify_ear
from attest.results.jose import read_jwks
from attest.terminal.display import Display
from tests.cli.conftest import LAB, WHEN, Attest, Files
from tests.results.test_issuer import RESULT
from tests.samples import AT

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(token, list(arguments), standalone_mode=True)

    return invoke


def refusal(found: Result) -> AttestError:
    assert isinstance(found.exception, AttestError), found.output
    return found.exception


@pytest.mark.parametrize("algorithm", ["ES256", "ES384", "Ed25519"])
def test_a_key_is_made_for_its_owner_alone_and_named_by_its_thumbprint(run: Run, algorithm: str) -> None:
    made = run("keygen", "-o", "key.pem", "--algorithm", algorithm)
    assert made.exit_code == 0
    assert stat.S_IMODE(Path("key.pem").stat().st_mode) == 0o600
    assert run("jwks", "key.pem", "-o", "jwks.json").exit_code == 0
    (key,) = json.loads(Path("jwks.json").read_text())["keys"]
    assert (key["kid"], key["alg"]) == (made.output.strip(), algorithm)
    assert "PRIVATE" not in made.output + Path("jwks.json").read_text()


def test_a_key_is_never_overwritten(run: Run) -> None:
    Path("key.pem").write_text("mine")
    assert refusal(run("keygen", "-o", "key.pem")).code == "output-exists"
    Path("link").symlink_to("elsewhere")
    assert refusal(run("keygen", "-o", "link")).code == "output-exists"
    assert refusal(run("keygen", "-o", "no/such/folder")).code == "output-unwritable"
    assert Path("key.pem").read_text() == "mine"


def test_the_key_set_has_next_and_retired_keys_at_their_time(run: Run) -> None:
    kids = [run("keygen", "-o", f"{name}.pem").output.strip() for name in ("now", "next", "old")]
    arguments = ("jwks", "now.pem", "--next", "next.pem", "--retired", "old.pem=2026-06-02T00:00:00Z", "--at")
    before = json.loads(run(*arguments, "2026-06-01T23:59:59Z").output)
    after = json.loads(run(*arguments, "2026-06-02T00:00:00Z").output)
    assert [key["kid"] for key in before["keys"]] == kids
    assert [key["kid"] for key in after["keys"]] == kids[:2]
    assert run(*arguments, "2026-06-01T00:00:00Z", "--cose", "-o", "keys.cbor").exit_code == 0
    assert Path("keys.cbor").read_bytes()[:1] == b"\x83"


def test_what_is_wrong_with_a_key_set_is_said(run: Run) -> None:
    run("keygen", "-o", "key.pem")
    assert refusal(run("jwks", "key.pem", "--next", "key.pem")).code == "token-keys-ambiguous"
    assert refusal(run("jwks", "none.pem")).code == "file-unreadable"
    Path("bad.pem").write_text("x")
    assert refusal(run("jwks", "bad.pem")).code == "secret-file-exposed"
    Path("bad.pem").chmod(0o600)
    assert refusal(run("jwks", "bad.pem")).code == "token-key-invalid"
    assert run("jwks", "key.pem", "--retired", "key.pem").exit_code == 2
    assert run("jwks", "key.pem", "--retired", "key.pem=tomorrow").exit_code == 2


# -- writing


def request(**changes: Any) -> TokenRequest:  # noqa: ANN401
    members = {
        "file": "out", "key": "key.pem", "form": "jwt", "lifetime": 300, "issuer": "me",
        "audience": (), "nonce": None, "force": False,
    }  # fmt: skip
    return TokenRequest(**{**members, **changes})


@pytest.mark.parametrize("form", ["jwt", "cwt"])
def test_a_token_of_a_result_is_written_and_verifies_with_the_published_keys(run: Run, form: str) -> None:
    run("keygen", "-o", "key.pem")
    run("jwks", "key.pem", "-o", "jwks.json")
    asked = request(form=form, nonce=bytes(8), audience=("kms",))
    write_token([RESULT], asked, prepare_token(asked))
    found = verify_ear(
        Path("out").read_bytes(),
        trusted={"me": read_jwks(Path("jwks.json").read_bytes())},
        at=AT,
        expected=ExpectedEar(nonce=bytes(8), audience="kms"),
    )
    assert found.ear.verifier.developer == "attest-kms"
    with pytest.raises(ConfigurationError) as outcome:
        write_token([RESULT], asked, prepare_token(asked))
    assert outcome.value.code == "output-exists"
    write_token([RESULT], request(form=form, force=True), prepare_token(asked))


def test_two_tokens_of_one_result_have_different_ids(run: Run) -> None:
    run("keygen", "-o", "key.pem")
    for name in ("a", "b"):
        write_token([RESULT], request(file=name), prepare_token(request()))
    assert Path("a").read_bytes() != Path("b").read_bytes()


def test_what_is_wrong_is_said_before_anything_is_judged(run: Run) -> None:
    with pytest.raises(ConfigurationError) as outcome:
        prepare_token(request())
    assert outcome.value.code == "file-unreadable"
    run("keygen", "-o", "key.pem")
    for size in (7, 65):
        with pytest.raises(ConfigurationError) as outcome:
            prepare_token(request(nonce=bytes(size)))
        assert outcome.value.code == "token-nonce-length"


def test_the_options_make_a_request() -> None:
    taken: list[TokenRequest | None] = []

    @click.command()
    @token_options
    def command(*, token_request: TokenRequest | None) -> None:
        taken.append(token_request)

    runner = CliRunner()
    assert runner.invoke(command, []).exit_code == 0
    options = "--token t --token-key k --token-format cwt --token-lifetime 60 --token-issuer i --token-audience a"
    every = [*options.split(), "--token-audience", "b", "--token-nonce", "00" * 8, "--token-force"]
    assert runner.invoke(command, every).exit_code == 0
    assert taken == [
        None,
        TokenRequest(
            file="t", key="k", form="cwt", lifetime=60, issuer="i", audience=("a", "b"),
            nonce=bytes(8), force=True,
        ),
    ]  # fmt: skip
    for wrong in (
        ["--token", "t"],
        ["--token-key", "k"],
        [*every, "--token-lifetime", "0"],
        [*every, "--token-nonce", "x"],
    ):
        assert runner.invoke(command, wrong).exit_code == 2


# -- reading


def asked(*trust: tuple[str, str], **changes: Any) -> VerificationOptions:  # noqa: ANN401
    network = Network(**dict.fromkeys(Network.__dataclass_fields__))  # type: ignore[arg-type]  # nobody is asked
    question: Any = {
        "inputs": ("out",), "endorsements": (), "at": AT, "nonce": None, "nonce_text": None, "report_data": None,
        "offline": True, "unchecked": (), "eventlog": None, "reference_log": None, "trust": trust,
        "audience": None, "form": None,
        "anchors": None, "allow_simulated": False, "bundle_keys": (), "network": network, "display": Display(json=True),
    }  # fmt: skip
    return VerificationOptions(**{**question, **changes})


@pytest.fixture
def written(run: Run) -> Callable[..., bytes]:
    """Write a token of an affirmed result, and the key set that it verifies under."""

    def write(**changes: Any) -> bytes:  # noqa: ANN401
        if not Path("key.pem").exists():
            run("keygen", "-o", "key.pem")
            run("jwks", "key.pem", "-o", "jwks.json")
        wanted = request(force=True, **changes)
        write_token([RESULT], wanted, prepare_token(wanted))
        return Path("out").read_bytes()

    return write


ME = ("me", "jwks.json")


@pytest.mark.parametrize("form", ["jwt", "cwt"])
def test_a_token_is_read_verified_and_shown(
    written: Callable[..., bytes], form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = written(form=form, nonce=bytes(8), audience=("kms",))
    case = open_token([("out", data)], asked(ME, audience="kms"), nonce=bytes(8), at=AT)
    assert case is not None
    assert case.show_verified() == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["outcome"], document["freshness"]) == (
        "attest.result/1",
        "verified",
        "matched",
    )
    assert document["items"][0]["claims"]["ear"]["ear_status"] == "affirming"
    assert case.show_appraised(()) == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "affirmed"


def test_a_token_that_answers_nobody_is_not_affirmed(
    written: Callable[..., bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    question = asked(ME)
    case = open_token([("out", written())], question, nonce=None, at=AT)
    assert case is not None
    assert case.show_appraised(()) == 1
    assert json.loads(capsys.readouterr().out)["outcome"] == "not-affirmed"
    relaxed = replace(question, unchecked=(Unchecked(check="freshness", reason="recorded"),))
    assert replace(case, question=relaxed).show_appraised(()) == 0
    with pytest.raises(ConfigurationError) as outcome:
        require_for_tokens([Policy.baseline()])
    assert outcome.value.code == "policy-not-for-tokens"


def test_people_get_a_page(written: Callable[..., bytes], capsys: pytest.CaptureFixture[str]) -> None:
    files = [("out", written())]
    for display, printed in ((Display(), True), (Display(quiet=True), False)):
        case = open_token(files, asked(ME, display=display), nonce=None, at=AT)
        assert case is not None
        case.show_verified()
        case.show_appraised(())
        assert bool(capsys.readouterr().out) is printed


def test_options_that_mean_nothing_for_a_token_are_refused(written: Callable[..., bytes]) -> None:
    files = [("out", written())]
    for question, nonce in ((asked(ME, report_data=bytes(64)), None), (asked(ME), bytes(7))):
        with pytest.raises(ConfigurationError) as outcome:
            open_token(files, question, nonce=nonce, at=AT)
        assert outcome.value.code in {"option-not-applicable", "token-nonce-length"}
    assert open_token([("x", b"-----BEGIN CERTIFICATE-----\n")], asked(ME), nonce=None, at=AT) is None
    assert open_token([*files, *files], asked(ME), nonce=None, at=AT) is None


def test_nobody_is_trusted_by_default(written: Callable[..., bytes]) -> None:
    case = open_token([("out", written())], asked(), nonce=None, at=AT)
    assert case is not None
    with pytest.raises(EndorsementError):
        case.verify()


def test_a_result_is_signed_and_read_again_at_the_command_line(attest: Attest, files: Files) -> None:
    assert attest("token", "keygen", "-o", "verifier.pem").code == 0
    assert attest("token", "jwks", "verifier.pem", "-o", "jwks.json").code == 0
    policy = Path(__file__).parents[2] / "policies/snp-lab-simulated.yaml"
    judged = ("appraise", files.extended, *LAB, "--nonce-text", "question", "--policy", policy)
    written = ("--token", "result.jwt", "--token-key", "verifier.pem", "--token-audience", "kms.example")
    ran = attest(*judged, *written, "--token-nonce", "00" * 32)
    assert ran.code == 0
    read = ("result.jwt", "--trust", "attest=jwks.json", "--at", WHEN, "--nonce", "00" * 32, "--offline")
    ran = attest("verify", *read, "--audience", "kms.example", "--json")
    assert ran.code == 0
    assert ran.document["items"][0]["kind"] == "token"
    assert ran.document["simulated"] is True
    assert attest("verify", *read).code == 4
    assert attest("verify", *read, "--audience", "another").code == 4
    # What rests on the simulator is never affirming, whatever its own policy said of it.
    assert attest("appraise", *read, "--audience", "kms.example").code == 1
    again = attest(*judged, *written)
    assert again.code == 2
    assert "result.jwt" in again.err
    assert "--token-force" in again.err
    wrong = attest("verify", "result.jwt", "--trust", "attest=result.jwt", "--at", WHEN)
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err.startswith("error: --trust result.jwt: ")
    assert "hint: name the key set" in wrong.err
