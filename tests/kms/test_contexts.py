"""Contexts of ``kms``: which server a command administers, and sign-in by a browser (RFC 8628)."""

import ssl
from pathlib import Path

import pytest

from attest.clock import system_clock
from attest.errors import AttestError, ConfigurationError
from kms.cli.contexts_file import Context, ContextsFile, read_contexts, write_contexts
from kms.cli.device_login import GRANT, Client, Prompt, sign_in
from kms.domain.bounded_content import bounded_content
from tests.kms.device_issuer import DeviceIssuer
from tests.kms.oidc import OidcIssuer
from tests.kms.test_administration import ALICE, CA, LOGIN, Site
from tests.kms.test_cli import Shell, shell
from tests.kms.test_cli_server import site

__all__ = ["shell", "site"]

pytestmark = pytest.mark.loopback


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("KMS_CONFIG", "KMS_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def add(shell: Shell, site: Site, name: str, *more: str) -> None:
    certificate, key = ALICE.write(site.folder, "alice")
    server = ("--server", site.url, "--ca", str(site.folder / "server-ca.crt"))
    shell.run("context", "add", name, *server, "--client-cert", str(certificate), "--client-key", str(key), *more)


@pytest.mark.usefixtures("home")
class TestChoice:
    """Which service a command administers."""

    def test_a_command_administers_the_current_context(self, site: Site, shell: Shell) -> None:
        add(shell, site, "here")
        assert "default" in shell.run("tenant", "list")[0]
        assert "* here  https://" in shell.run("context", "list")[0]

    def test_settings_on_the_command_line_or_in_the_environment_come_first(
        self, site: Site, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        add(shell, site, "here")
        shell.init()
        shell.with_config("tenant", "create", "mine")
        assert "mine" in shell.with_config("tenant", "list")[0]
        assert "mine" not in shell.run("tenant", "list")[0]
        monkeypatch.setenv("KMS_CONFIG", str(shell.config))
        assert "mine" in shell.run("tenant", "list")[0]
        assert "mine" not in shell.run("tenant", "list", "--context", "here")[0]
        monkeypatch.setenv("KMS_CONTEXT", "here")
        assert "mine" not in shell.run("tenant", "list")[0]
        assert "mine" in shell.with_config("tenant", "list")[0]

    def test_another_context_is_named_for_one_command(self, site: Site, shell: Shell) -> None:
        shell.run("context", "add", "away", "--server", "https://127.0.0.1:1")
        add(shell, site, "here")
        assert "[server-unreachable]" in shell.run("tenant", "list", code=1)[1]
        assert "default" in shell.run("tenant", "list", "--context", "here")[0]
        shell.run("context", "use", "here")
        assert "default" in shell.run("tenant", "list")[0]
        shell.run("context", "use", "--none")
        assert "[config-invalid]" in shell.run("tenant", "list", code=2)[1]

    def test_what_does_not_go_together_is_wrong_usage(self, site: Site, shell: Shell) -> None:
        add(shell, site, "here")
        for more in (("--context", "here", "--config", "kms.toml"), ("--context", "here", "--server", site.url)):
            shell.run("tenant", "list", *more, code=2)
        assert "[context-unknown]" in shell.run("tenant", "list", "--context", "there", code=2)[1]
        assert "[context-exists]" in shell.run("context", "add", "here", "--server", site.url, code=2)[1]
        assert "[context-name-invalid]" in shell.run("context", "add", "A b", "--server", site.url, code=2)[1]
        issuer = ("--server", site.url, "--issuer", "https://login.test")
        assert "belong together" in shell.run("context", "add", "x", *issuer, code=2)[1]
        both = (*issuer, "--client-id", "kms", "--token-file", "t")
        assert "not both" in shell.run("context", "add", "x", *both, code=2)[1]
        assert "give the name" in shell.run("context", "use", code=2)[1]
        assert "no --issuer" in shell.run("login", code=2)[1]
        shell.run("context", "remove", "here")
        assert "no current context" in shell.run("login", code=2)[1]

    def test_names_of_identities_are_shown_beside_them(self, shell: Shell) -> None:
        alice = "jwt:https://login.test|alice"
        shell.init("--administrator", alice)
        shell.run("context", "name", alice, "alice-of-security")
        assert f"{alice} (alice-of-security)  administrator" in shell.with_config("admin", "list")[0]
        shell.run("context", "name", alice, "--remove")
        assert "alice-of-security" not in shell.with_config("admin", "list")[0]
        assert "[identity-invalid]" in shell.run("context", "name", "root", "me", code=2)[1]
        assert "give a name" in shell.run("context", "name", alice, code=2)[1]

    def test_a_token_of_an_issuer_that_is_not_there_is_asked_for(self, site: Site, shell: Shell) -> None:
        add(shell, site, "here", "--issuer", "https://login.test", "--client-id", "kms")
        err = shell.run("tenant", "list", code=2)[1]
        assert "[login-required]" in err
        assert "kms login --context here" in err


class TestFile:
    """The file of contexts."""

    def test_what_was_written_is_read(self, home: Path) -> None:
        environ = {"XDG_CONFIG_HOME": str(home)}
        odd = Context(server='https://a.test:1/"x"', ca="/tmp/\u00e4 \\ b", issuer="https://l.test", client_id="k")  # noqa: S108
        one = ContextsFile().added("a", odd, use=False).added("b.c", Context(server="https://b.test"), use=False)
        one = ContextsFile(current=one.current, contexts=one.contexts, identities={"jwt:https://l|a": "alice"})
        path = write_contexts(one, environ)
        assert read_contexts(environ) == one
        assert one.current == "a"
        assert path.stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize(
        "text",
        [
            "current =",
            'current = "none"',
            "[context.a]\nserver = 1",
            '[context.a]\nserver = "https://a"\nsecret = "x"',
            '[context."A B"]\nserver = "https://a"',
            '[context.a]\nca = "x"',
            '[context.a]\nserver = "https://a"\ntoken = "refresh_token"',
            'more = "x"',
            'context = "x"',
            "[identities]\na = 1",
            '[identities]\na = "\\u001b[2J"',
            "#" * (1 << 20) + "\n",
            "\xff",
        ],
    )
    def test_a_file_that_is_not_understood_is_refused(self, home: Path, text: str) -> None:
        (home / "kms").mkdir()
        path = home / "kms" / "contexts.toml"
        path.write_bytes(text.encode("latin-1"))
        path.chmod(0o600)
        with pytest.raises(ConfigurationError) as caught:
            read_contexts({"XDG_CONFIG_HOME": str(home)})
        assert caught.value.code == "contexts-invalid"
        assert str(path) in caught.value.message

    def test_a_file_that_others_can_change_is_refused(self, home: Path) -> None:
        environ = {"XDG_CONFIG_HOME": str(home)}
        write_contexts(ContextsFile(), environ).chmod(0o620)
        with pytest.raises(ConfigurationError) as caught:
            read_contexts(environ)
        assert caught.value.code == "contexts-exposed"

    def test_without_a_folder_there_are_no_contexts_and_none_can_be_written(self) -> None:
        assert read_contexts({}) == ContextsFile()
        with pytest.raises(ConfigurationError):
            write_contexts(ContextsFile(), {"HOME": "relative"})


# -- sign-in


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, str]:
    folder = tmp_path_factory.mktemp("issuer")
    certificate, key = CA.issue("localhost", server=True).write(folder, "issuer")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, str(CA.write(folder, "issuer-ca"))


PENDING = (400, {"error": "authorization_pending"})


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def __call__(self) -> float:
        return self.now


Trusted = tuple[ssl.SSLContext, str]


def signed_in(served: DeviceIssuer, tls: Trusted, **changes: str) -> tuple[str, list[Prompt], _Clock]:
    shown: list[Prompt] = []
    clock = _Clock()
    with served.served(tls[0]) as url:
        values = {"issuer": url, "client_id": "kms", "scope": "openid", "token": "access_token", "ca": tls[1]}
        client = Client(**{**values, **changes})
        return sign_in(client, show=shown.append, sleep=clock.sleep, monotonic=clock), shown, clock


def test_a_token_comes_once_the_user_has_signed_in(tls: tuple[ssl.SSLContext, str]) -> None:
    both = (200, {"access_token": "A", "id_token": "I"})
    issuer = DeviceIssuer([PENDING, (400, {"error": "slow_down"}), PENDING, both])
    token, shown, clock = signed_in(issuer, tls)
    assert token == "A"
    assert shown == [Prompt(address=f"{issuer.url}/go", code="WDJB-MJHT")]
    assert clock.pauses == [1, 1, 6, 6]
    assert issuer.forms[0] == ("/device", {"client_id": ["kms"], "scope": ["openid"]})
    assert issuer.forms[1] == ("/t", {"grant_type": [GRANT], "device_code": ["D"], "client_id": ["kms"]})
    issuer = DeviceIssuer([both], start={"verification_uri_complete": "https://go.test/?c"})
    token, shown, _ = signed_in(issuer, tls, token="id_token")
    assert (token, shown[0].address) == ("I", "https://go.test/?c")


@pytest.mark.parametrize(
    ("issuer", "code"),
    [
        (DeviceIssuer([(400, {"error": "access_denied"})]), "login-denied"),
        (DeviceIssuer([(400, {"error": "expired_token"})]), "login-expired"),
        (DeviceIssuer([PENDING] * 100, start={"interval": 30}), "login-expired"),
        (DeviceIssuer([(200, {"id_token": "I"})]), "login-answer-invalid"),
        (DeviceIssuer([(200, {"access_token": "two\nlines"})]), "login-answer-invalid"),
        (DeviceIssuer([(500, {})]), "login-answer-invalid"),
        (DeviceIssuer([PENDING] * 100, start={"interval": 10**9}), "login-expired"),
        (DeviceIssuer([], known={"more": "x" * 65536}), "login-answer-invalid"),
        (DeviceIssuer([], start={"device_code": None}), "login-answer-invalid"),
        (DeviceIssuer([], start={"user_code": "\x1b[2J"}), "login-answer-invalid"),
        (DeviceIssuer([], start={"verification_uri": "http://go.test"}), "login-issuer-invalid"),
        (DeviceIssuer([], start={"verification_uri": None}), "login-issuer-invalid"),
        (DeviceIssuer([], known={"issuer": "https://other.test"}), "login-answer-invalid"),
        (DeviceIssuer([], known={"token_endpoint": "http://127.0.0.1/t"}), "login-issuer-invalid"),
        (DeviceIssuer([], known={"device_authorization_endpoint": None}), "login-answer-invalid"),
    ],
)
def test_what_an_issuer_may_not_do_ends_the_sign_in(
    issuer: DeviceIssuer, code: str, tls: tuple[ssl.SSLContext, str]
) -> None:
    with pytest.raises(AttestError) as caught:
        signed_in(issuer, tls)
    assert caught.value.code == code


def test_an_issuer_that_is_away_not_trusted_or_not_over_tls_is_refused(tls: tuple[ssl.SSLContext, str]) -> None:
    for changes, code in (
        ({"issuer": "https://127.0.0.1:1"}, "login-unreachable"),
        ({"issuer": "http://localhost"}, "login-issuer-invalid"),
        ({"issuer": "localhost"}, "login-issuer-invalid"),
        ({"ca": "/nowhere/ca.pem"}, "file-unreadable"),
    ):
        with pytest.raises(AttestError) as caught:
            signed_in(DeviceIssuer([]), tls, **changes)
        assert caught.value.code == code


def test_after_signing_in_a_command_is_that_user_s(
    site: Site, shell: Shell, home: Path, tls: tuple[ssl.SSLContext, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kms.cli.context.time.sleep", lambda _: None)
    token = LOGIN.token("alice", at=system_clock())
    issuer = DeviceIssuer([PENDING, (200, {"access_token": token})])
    with issuer.served(tls[0]) as url:
        add(shell, site, "here", "--issuer", url, "--issuer-ca", tls[1], "--client-id", "kms")
        out, err = shell.run("login")
    assert (out, "WDJB-MJHT" in err, token in err) == ("", True, False)
    place = home / "state" / "kms" / "tokens" / "here"
    assert (place.read_text(), place.stat().st_mode & 0o777) == (token, 0o600)
    assert isinstance(LOGIN, OidcIssuer)
    assert "default" in shell.run("tenant", "list")[0]
    assert "signed out" in shell.run("logout")[1]
    assert not place.exists()
    assert "no token" in shell.run("logout")[1]
    assert "[login-required]" in shell.run("tenant", "list", code=2)[1]


@pytest.mark.parametrize("seconds", [10**9, 10**400])
def test_no_pause_that_an_issuer_names_holds_a_command_up(tls: tuple[ssl.SSLContext, str], seconds: int) -> None:
    token, _, clock = signed_in(DeviceIssuer([(200, {"access_token": "A"})], start={"interval": seconds}), tls)
    assert (token, clock.pauses) == ("A", [60.0])


def test_an_answer_has_at_most_so_many_bytes() -> None:
    assert bounded_content([b"ab", b"c"], 3) == b"abc"
    with pytest.raises(OSError, match="more than 3 bytes"):
        bounded_content([b"ab", b"cd"], 3)
