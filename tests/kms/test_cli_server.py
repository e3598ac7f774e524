"""Every administrative command, on the service's machine and against a server: the same output, errors and codes."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import httpx
import pytest

from attest.clock import system_clock
from attest.errors import AttestError, ConfigurationError
from kms.cli.administration import AdminClient
from kms.cli.main import cli
from kms.domain.errors import IntegrityError, KmsError, UnauthenticatedError, UnavailableError
from kms.domain.secret import SecretBytes
from tests.kms.pki import DAY, NOW, authority
from tests.kms.support import AT, Workload, policy_text, write_endorsements
from tests.kms.test_administration import ALICE, CA, LOGIN, Site, run, settings, start
from tests.kms.test_cli import Shell, shell
from tests.kms.test_leases import CHALLENGE
from tests.kms.test_quorum import KEYS, pem

__all__ = ["shell"]

pytestmark = pytest.mark.loopback
FILE = re.compile(r"POLICY|NEWER|EVIDENCE|PUBLIC|ARGUMENTS|WRAPPED-.")
ROLES = ("key-owner", "policy-owner", "operator", "auditor")


def administrative(group: click.Group = cli, path: str = "") -> Iterator[str]:
    """Every command that can be sent to a server."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from administrative(command, f"{path}{name} ")
        elif any("--server" in one.opts for one in command.params) and path != "context ":
            yield f"{path}{name}"


@dataclass(frozen=True)
class Case:
    """What is asked of a command, once in each way; ``{x}`` is ``a`` on the machine and ``b`` over the network,
    ``{k}`` the command's name and ``{n}`` the number of the newest proposal.

    Attributes:
        more: arguments behind the command's name.
        before: commands that bring the service into the state that it needs, on the machine.
        after: commands that clear up, on the machine.
        code: the exit code.
        says: text of the output, in both ways.
        shared: whether both ways look at the same state; else each brings the service into its own.
    """

    more: str = ""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    code: int = 0
    says: str = ""
    shared: bool = False


MADE = ("key create {k}-{x} --policy POLICY",)
CASES = {
    "tenant create": Case("new-{x}", says="there is a tenant"),
    "tenant list": Case(says="default  since"),
    "admin grant": Case("mtls:sha256:{xx} auditor --tenant none", says="warning: there is no tenant 'none'"),
    "admin revoke": Case("999", code=1, says="[grant-unknown]"),
    "admin list": Case("--all", says="administrator"),
    "key create": Case("created-{x} --policy POLICY", says="version 1"),
    "key import": Case("imported-{x} --policy POLICY --wrapped WRAPPED-{x}", says="version 1"),
    "key import-key": Case(says="import"),
    "key list": Case("--json", before=MADE, shared=True, says="key-list-a"),
    "key show": Case("{k}-{x}", before=MADE, says="policy:"),
    "key disable": Case("{k}-{x}", before=MADE, says="disabled"),
    "key enable": Case("{k}-{x}", before=MADE, code=1, says="[key-state-unchanged]"),
    "key rotate": Case("{k}-{x} --overlap 1h", before=MADE, says="version 2"),
    "key schedule": Case("{k}-{x} --every 30d", before=MADE, says="is due at"),
    "key destroy": Case("{k}-{x} --yes", before=MADE, says="will be destroyed at"),
    "key restore": Case("{k}-{x}", before=(*MADE, "key destroy {k}-{x} --yes"), says="is restored"),
    "key tag": Case("{k}-{x} team=search", before=MADE, says="team=search"),
    "key limits set": Case("{k}-{x} --most-holders 2", before=MADE, says="at version 1"),
    "key limits show": Case("{k}-{x} --json", before=MADE, says="most_holders"),
    "key policy set": Case("{k}-{x} --policy NEWER --json", before=MADE, says="kms.policy-change/1"),
    "key release-settings": Case("{k}-{x} --disclosure none --lease-seconds 60", before=MADE, says="lease 60 s"),
    "alias add": Case("kbs:///a/b/{k}-{x} {k}-{x}", before=MADE, says="leads to"),
    "alias remove": Case(
        "kbs:///a/c/{k}-{x}", before=(*MADE, "alias add kbs:///a/c/{k}-{x} {k}-{x}"), says="leads to no key"
    ),
    "alias list": Case("--json", says="kms.aliases/1"),
    "references list": Case(says="there are no documents"),
    "references add": Case("POLICY", code=2, says="error: "),
    "status": Case(says="holders until ("),
    "releases list": Case("--json", says="leases"),
    "releases affected": Case("--product Milan --key none", code=1, says="[key-unknown]"),
    "releases resume": Case("none --reason test", code=1, says="[lease"),
    "releases try": Case("--evidence EVIDENCE --key model --at 2026-06-01T12:00:00Z", says="would be released"),
    "freeze key": Case("{k}-{x} --reason test", before=MADE, says="is frozen"),
    "freeze tenant": Case("t-{x} --reason test", before=("tenant create t-{x}",), says="is frozen"),
    "freeze product": Case("milan --reason test --dry-run", says="product milan would be frozen"),
    "freeze all": Case("--reason test --dry-run", says="at present no one can lift this freeze"),
    "freeze list": Case("--json", says="kms.freezes/1"),
    "thaw key": Case(
        "{k}-{x} --reason test", before=(*MADE, "freeze key {k}-{x} --reason test"), code=1, says="[quorum-required]"
    ),
    "thaw tenant": Case("u-{x} --reason test", code=1, says="[quorum-required]"),
    "thaw product": Case("turin --reason test", code=1, says="[quorum-required]"),
    "thaw all": Case("--reason test", code=1, says="[quorum-required]"),
    "floor set": Case(
        "milan:snp=1 --because test --yes", after=("floor end --all --because test --yes",), says="is at version"
    ),
    "floor end": Case(
        "--all --because test --yes", before=("floor set turin:fmc=1 --because test --yes",), says="is at version"
    ),
    "floor show": Case("--json", says="kms.floors/1"),
    "floor check": Case(says="no live lease is below a floor"),
    "break-glass open": Case(
        "--key model --policy POLICY --until 2100-01-01T00:00:00Z --reason test", code=1, says="[quorum-required]"
    ),
    "break-glass list": Case(says="no relaxations"),
    "break-glass close": Case("7 --reason test", code=1, says="[break-glass-not-open]"),
    "anchors show": Case(says="ARK"),
    "anchors approve": Case(says="trust anchors are approved"),
    "people list": Case("--json", says="alice"),
    "people add": Case("dora-{x} --key PUBLIC --propose --reason test", says="proposal"),
    "people remove": Case("carol", code=2, says="[quorum-invalid]"),
    "quorum show": Case(says="quorum       2 of"),
    "quorum set": Case("kek --of 1 --person alice --propose --reason test", says="proposal"),
    "quorum clear": Case("thaw", code=2, says="there is no rule for thaw"),
    "proposal create": Case("quorum-set --arguments ARGUMENTS --reason test", code=2, says="[change-invalid]"),
    "proposal list": Case("--json", says="kms.proposals/1"),
    "proposal show": Case("1 --json", says="kms.proposal-standing/1"),
    "proposal approve": Case("POLICY", code=2, says="error: "),
    "proposal withdraw": Case("{n} --reason test", before=("quorum clear quorum --propose --reason test",)),
    "proposal execute": Case("1", code=1, says="[quorum-not-reached]"),
    "log list": Case("--after 1", says="grant-added"),
    "log tail": Case("-n 2 --json", says="hash"),
    "log checkpoint": Case(says="kms.test/ways"),
}


def test_every_administrative_command_has_a_case() -> None:
    assert set(administrative()) == set(CASES)


# -- the service


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("ways")
    me = f"mtls:sha256:{ALICE.pin}"
    svc = folder / "svc"
    said = run("init", str(svc), "--origin", "kms.test/ways", "--administrator", me, "--allow-simulated")
    workload = Workload(audience=said.partition("identity: ")[2].split("\n")[0])
    (folder / "EVIDENCE").write_bytes(workload.request(CHALLENGE, "model").evidence.to_json())
    config = svc / "kms.toml"
    write(folder)
    (svc / "endorsements").mkdir()
    write_endorsements(svc, at=AT)
    more = "allow_thaw_by_one = true\nclient_requests_per_second = 0\n"
    config.write_text(config.read_text().replace("# endorsements", "endorsements") + more, encoding="utf-8")
    with_config = ("--config", str(config))
    for role in ROLES:
        run("admin", "grant", me, role, "--tenant", "*", *with_config)
    run("key", "create", "model", "--policy", str(folder / "POLICY"), *with_config)
    people = [word for name in ("alice", "bob", "carol") for word in ("--person", name)]
    for name in ("alice", "bob", "carol"):
        run("people", "add", name, "--key", str(folder / f"{name}.pub"), *with_config)
    run("quorum", "set", "quorum", "--of", "2", *people, *with_config)
    run("people", "add", "dora", "--key", str(folder / "PUBLIC"), "--propose", "--reason", "first", *with_config)
    note = folder / "note"
    note.write_text(run("key", "import-key", *with_config), encoding="utf-8")
    (folder / "issuers.toml").write_text(LOGIN.table(folder), encoding="utf-8")
    run("admin", "grant", f"jwt:{LOGIN.name}|alice", "auditor", "--tenant", "*", *with_config)
    made = start(folder, settings(folder, issuers=True))
    for x in "ab":
        wrap = ("key", "wrap", f"imported-{x}", "--to", str(note), "--service", made.served.identity)
        files = ("--from", str(folder / "material"), "--policy", str(folder / "POLICY"))
        run(*wrap, *files, "--out", str(folder / f"WRAPPED-{x}"))
    yield made
    assert made.served.terminate() == 0


def write(folder: Path) -> None:
    (folder / "POLICY").write_bytes(policy_text())
    (folder / "NEWER").write_bytes(policy_text().replace(b"version: 1", b"version: 2").replace(b"snp: 26", b"snp: 27"))
    (folder / "ARGUMENTS").write_text("{}")
    (folder / "material").write_bytes(bytes(range(32)))
    (folder / "material").chmod(0o600)
    for name in ("alice", "bob", "carol"):
        (folder / f"{name}.pub").write_bytes(pem(KEYS[name]))
    (folder / "PUBLIC").write_bytes(pem(KEYS["mallory"]))


class Ways:
    """Runs one command in both ways, one after the other."""

    def __init__(self, site: Site, shell: Shell) -> None:
        self.site = site
        self.shell = shell
        self.config = ("--config", str(site.folder / "svc" / "kms.toml"))

    def local(self, command: str, *, code: int = 0) -> tuple[str, str]:
        return self.shell.run(*self.words(command), *self.config, code=code)

    def remote(self, command: str, *, code: int = 0) -> tuple[str, str]:
        return self.shell.run(*self.words(command), *self.server(), code=code)

    def server(self) -> tuple[str, ...]:
        certificate, key = ALICE.write(self.site.folder, "alice")
        server = ("--server", self.site.url, "--ca", str(self.site.folder / "server-ca.crt"))
        return (*server, "--client-cert", str(certificate), "--client-key", str(key))

    def words(self, command: str) -> list[str]:
        if "{n}" in command:
            command = command.replace("{n}", str(len(self.local("proposal list")[0].splitlines())))
        return [str(self.site.folder / one) if FILE.fullmatch(one) else one for one in shlex.split(command)]

    def both(self, name: str, case: Case) -> tuple[list[str], list[str]]:
        found = []
        for x, way in (("a", self.local), ("b", self.remote)):

            def of(command: str, x: str = x) -> str:
                return command.replace("{xx}", x * 64).replace("{x}", x).replace("{k}", name.replace(" ", "-"))

            for one in case.before if x == "a" or not case.shared else ():
                self.local(of(one))
            out, err = way(of(f"{name} {case.more}"), code=case.code)
            assert case.says in out + err
            found.append(alike(out + err))
            for one in case.after:
                self.local(of(one))
        return found[0], found[1]


def alike(text: str) -> list[str]:
    """Leave out what differs between two moments, two keys and two callers."""
    text = re.sub(r"-[ab]\b", "-x", text)
    text = re.sub(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z", "TIME", text)
    text = re.sub(r"(mtls:)?(sha256:)?[0-9a-f]{64}", "HASH", text)
    text = re.sub(r"by (local:)?(root|HASH)", "by WHO", text)
    return re.sub(r"\b[0-9]+\b", "N", text).splitlines()


@pytest.mark.parametrize("name", list(CASES))
def test_a_command_does_the_same_on_the_machine_and_at_a_server(site: Site, shell: Shell, name: str) -> None:
    here, there = Ways(site, shell).both(name, CASES[name])
    assert here == there


# -- what goes wrong on the way


def refused(site: Site, shell: Shell, *more: str, code: int = 1, url: str | None = None) -> str:
    return shell.run("tenant", "list", "--server", url or site.url, *more, code=code)[1]


def test_a_server_of_another_authority_is_not_trusted(site: Site, shell: Shell) -> None:
    other = authority("others").write(site.folder, "other-ca")
    err = refused(site, shell, "--ca", str(other))
    assert "[server-untrusted]" in err
    assert "hint: give the CA of its certificate with --ca" in err
    assert "[server-untrusted]" in refused(site, shell)


def test_a_client_whom_the_server_does_not_know_is_told_so(site: Site, shell: Shell) -> None:
    ca = ("--ca", str(site.folder / "server-ca.crt"))
    assert "--client-cert" in refused(site, shell, *ca)
    certificate, key = CA.issue("late", until=NOW - DAY).write(site.folder, "late")
    assert "[server-" in refused(site, shell, *ca, "--client-cert", str(certificate), "--client-key", str(key))
    nobody, its_key = CA.issue("nobody").write(site.folder, "nobody")
    err = refused(site, shell, *ca, "--client-cert", str(nobody), "--client-key", str(its_key))
    assert "is not permitted: tenants.read" in err
    assert "[not-permitted]" in err
    assert "hint: an administrator can grant one" in err


def test_a_server_that_is_away_and_one_that_is_no_administration_api(site: Site, shell: Shell) -> None:
    ca = ("--ca", str(site.folder / "server-ca.crt"))
    err = refused(site, shell, *ca, url="https://127.0.0.1:1")
    assert "[server-unreachable]" in err
    assert "hint: check that 'kms serve' is running there" in err
    assert "[server-" in refused(site, shell, *ca, url=f"https://127.0.0.1:{site.served.port}")


def test_a_token_is_read_from_a_file_and_one_that_does_not_count_is_refused(site: Site, shell: Shell) -> None:
    mine, token = Ways(site, shell).server(), shell.folder / "token"
    token.write_text(LOGIN.token("alice", at=system_clock()) + "\n")  # one counts for minutes
    token.chmod(0o640)
    assert "[secret-file-exposed]" in refused(site, shell, "--token-file", str(token), code=2)
    token.chmod(0o600)
    assert "default" in shell.run("tenant", "list", *mine, "--token-file", str(token))[0]
    token.write_text(LOGIN.token("alice", at=NOW - DAY))
    err = shell.run("tenant", "list", *mine, "--token-file", str(token), code=1)[1]
    assert "[token-expired]" in err
    assert "eyJ" not in err
    for content, code in (
        ("", "token-file-invalid"),
        ("two words", "token-file-invalid"),
        ("\u00e4", "file-unreadable"),
    ):
        token.write_text(content)
        assert f"[{code}]" in refused(site, shell, "--token-file", str(token), code=2)
    assert "[file-unreadable]" in refused(site, shell, "--token-file", str(shell.folder / "none"), code=2)


def test_a_key_of_a_certificate_that_others_can_read_is_not_used(site: Site, shell: Shell) -> None:
    certificate, key = ALICE.write(shell.folder, "mine")
    key.chmod(0o604)
    mine = ("--ca", str(site.folder / "server-ca.crt"), "--client-cert", str(certificate), "--client-key", str(key))
    assert f"hint: chmod 600 {key}" in refused(site, shell, *mine, code=2)
    key.chmod(0o400)
    assert "default" in shell.run("tenant", "list", "--server", site.url, *mine)[0]


def test_options_that_do_not_go_together_are_wrong_usage(site: Site, shell: Shell) -> None:
    assert "omit --config" in refused(site, shell, "--config", "kms.toml", code=2)
    assert "omit --config" in refused(site, shell, "--kek-file", "kek", code=2)
    assert "require --server" in shell.run("tenant", "list", "--ca", "ca.pem", code=2)[1]
    for url in ("http://127.0.0.1:1", "127.0.0.1:1", "https://"):
        assert "[server-invalid]" in refused(site, shell, url=url, code=2)
    assert "[file-unreadable]" in refused(site, shell, "--ca", str(shell.folder / "none"), code=2)
    assert "[file-unreadable]" in refused(site, shell, "--client-cert", str(shell.policy), code=2)


def test_mc_33_a_key_in_the_clear_goes_to_no_server(site: Site, shell: Shell) -> None:
    given = ("--from", str(shell.key), *Ways(site, shell).server())
    for command in (("key", "import", "clear", "--policy", str(shell.policy)), ("key", "rotate", "model")):
        assert "a server takes only sealed keys" in shell.run(*command, *given, code=2)[1]
    client = AdminClient(httpx.Client, is_remote=True)
    with pytest.raises(ValueError, match="only in sealed form"):
        client.post("/v1/keys", {}, material=SecretBytes(bytes(32)))
    client.close()


def answering(answer: httpx.Response) -> AdminClient:
    transport = httpx.MockTransport(lambda request: answer)
    return AdminClient(lambda: httpx.Client(transport=transport, base_url="https://kms"), is_remote=True)


@pytest.mark.parametrize(
    ("status", "kind", "exits", "hint"),
    [
        (401, UnauthenticatedError, 1, "ask"),
        (403, KmsError, 1, "ask"),
        (409, KmsError, 1, "ask"),
        (422, ConfigurationError, 2, "ask"),
        (429, KmsError, 1, "repeat the command in 7 s"),
        (500, IntegrityError, 1, "ask"),
        (503, UnavailableError, 1, "ask"),
    ],
)
def test_a_problem_document_becomes_the_error_that_it_was(
    status: int, kind: type[AttestError], exits: int, hint: str
) -> None:
    document = {"detail": "no", "code": "some-code", "hint": "ask", "expected": "a", "got": "b", "field": "f"}
    headers = {"Content-Type": "application/problem+json", "Retry-After": "7"}
    client = answering(httpx.Response(status, json={**document, "retryable": status == 503}, headers=headers))
    with pytest.raises(kind) as caught:
        client.get("/v1/tenants")
    error = caught.value
    assert (error.message, error.code, error.expected, error.got, error.field) == ("no", "some-code", "a", "b", "f")
    assert (error.exit_code, error.retryable) == (exits, status == 503)
    assert (error.hint or "").startswith(hint)


def test_a_caller_whom_nothing_identifies_is_told_what_to_name() -> None:
    document = {"detail": "no", "code": "authentication-required", "hint": "send 'Authorization: Bearer TOKEN'"}
    client = answering(httpx.Response(401, json=document, headers={"Content-Type": "application/problem+json"}))
    with pytest.raises(UnauthenticatedError) as caught:
        client.get("/v1/tenants")
    assert "--token-file" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"<html>", "text/html"), (b"{", "application/problem+json"), (b"[]", "application/problem+json")],
)
def test_an_answer_that_is_none_of_the_api_is_told_as_that(content: bytes, kind: str) -> None:
    client = answering(httpx.Response(404, content=content, headers={"Content-Type": kind}))
    with pytest.raises(KmsError) as caught:
        client.get("/v1/tenants")
    assert caught.value.code == "server-answer-unreadable"


def test_a_connection_that_ends_is_told_with_what_to_look_at() -> None:
    def end(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("closed", request=request)

    client = AdminClient(
        lambda: httpx.Client(transport=httpx.MockTransport(end), base_url="https://kms"), is_remote=True
    )
    with pytest.raises(UnavailableError) as caught:
        client.post("/v1/tenants", {"tenant": "acme"})
    assert caught.value.code == "server-disconnected"
    assert "check whether the change was made" in (caught.value.hint or "")
