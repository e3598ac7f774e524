"""The administration API of a real `kms serve`: TLS on loopback, with httpx and curl."""

import json
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from attest.clock import system_clock
from kms.config.settings_file import prepare_directory
from tests.kms.oidc import OidcIssuer, serving
from tests.kms.pki import DAY, NOW, Authority, Issued, authority, server_context
from tests.kms.process import ServedProcess
from tests.kms.support import policy_text
from tests.kms.warm import run_warm

pytestmark = pytest.mark.loopback
CA = authority("administrators")
ALICE = CA.issue("alice", uris=("spiffe://team/alice",))
LOGIN = OidcIssuer()


def run(*arguments: str, code: int = 0) -> str:
    done = run_warm(*arguments)
    assert done.returncode == code, done
    return done.stdout + done.stderr


@dataclass
class Site:
    """A service with an administration listener, and what its administrators need."""

    folder: Path
    served: ServedProcess

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.served.admin_port}"

    @property
    def log(self) -> str:
        return (self.folder / "svc" / "serve.log").read_text(encoding="utf-8")

    def client(self, issued: Issued | None = ALICE, *, headers: dict[str, str] | None = None) -> httpx.Client:
        context = ssl.create_default_context(cafile=str(self.folder / "server-ca.crt"))
        if issued is not None:
            context.load_cert_chain(*issued.write(self.folder, f"client-{issued.pin[:8]}"))
        return httpx.Client(base_url=self.url, verify=context, headers=headers, timeout=30)


def settings(folder: Path, *, client_ca: Authority | None = CA, issuers: bool = False, names: str = "sha256") -> Path:
    """Write the table [admin] behind what `kms init` wrote."""
    config = folder / "svc" / "kms.toml"
    authority("servers").write(folder, "server-ca")
    authority("servers").issue("kms", server=True).write(folder, "admin")
    lines = ["[admin]", "port = 0", 'certificate_file = "../admin.crt"', 'key_file = "../admin.key"']
    lines.append(f'certificate_names = "{names}"')
    if client_ca is not None:
        client_ca.write(folder, "client-ca")
        lines.append('client_ca_file = "../client-ca.crt"')
    if issuers:
        lines.append('issuers_file = "../issuers.toml"')
    config.write_text(config.read_text(encoding="utf-8") + "\n".join([*lines, ""]), encoding="utf-8")
    return config


def start(folder: Path, config: Path) -> Site:
    return Site(folder=folder, served=ServedProcess.start(config, "--admin-port", "0"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    run("init", str(folder / "svc"), "--origin", "kms.test/admin", "--administrator", f"mtls:sha256:{ALICE.pin}")
    made = start(folder, settings(folder))
    yield made
    assert made.served.terminate() == 0


def test_the_first_administrator_comes_in_with_the_certificate_named_at_init(site: Site) -> None:
    with site.client() as http:
        answer = http.get("/v1/whoami").json()
        assert answer["identity"] == f"mtls:sha256:{ALICE.pin}"
        assert [(one["role"], one["tenant"]) for one in answer["grants"]] == [("administrator", "*")]
        assert http.get("/v1/keys?tenant=default").status_code == 403
        assert http.get("/v1/settings").json()["settings"]["origin"] == "kms.test/admin"


def test_everything_that_a_key_needs_is_done_over_the_network(site: Site) -> None:
    owner, auditor = CA.issue("owner"), CA.issue("auditor")
    body: dict[str, str] = {}
    with site.client() as http:
        for issued, role, tenant in ((owner, "key-owner", "default"), (auditor, "auditor", "*")):
            body = {"identity": f"mtls:sha256:{issued.pin}", "role": role, "tenant": tenant}
            given = http.post("/v1/grants", json=body)
            assert given.status_code == 200, given.text
            assert given.json()["granted_by"] == f"mtls:sha256:{ALICE.pin}"
        again = http.post("/v1/grants", json=body)
        assert (again.status_code, again.json()["code"]) == (409, "grant-exists")
        mine = http.post("/v1/grants", json={**body, "identity": f"mtls:sha256:{ALICE.pin}"})
        assert (mine.status_code, mine.json()["code"]) == (409, "grant-to-self")
    with site.client(owner) as http:
        body = {"tenant": "default", "key_id": "model", "policy": policy_text().decode()}
        assert http.post("/v1/keys", json=body).json()["enabled"] is True
        again = http.post("/v1/keys", json=body)
        assert (again.status_code, again.json()["code"]) == (409, "key-exists")
        bad = http.post("/v1/keys", json={**body, "key_id": "other", "policy": "name: 1"})
        assert (bad.status_code, bad.json()["code"]) == (422, "policy-invalid")
        assert http.post("/v1/keys/default/model/disable", json={}).json()["enabled"] is False
        same = http.post("/v1/keys/default/model/disable", json={})
        assert (same.status_code, same.json()["code"]) == (409, "key-state-unchanged")
        assert http.post("/v1/keys/default/model/enable", json={}).json()["enabled"] is True
        (policy,) = http.get("/v1/policies?tenant=default").json()["policies"]
        assert policy["keys"] == ["model"]
        document = http.get(f"/v1/policies/default/{policy['sha256']}").json()["document"]
        assert document == policy_text().decode()
        absent = http.get(f"/v1/policies/default/{'0' * 64}")
        assert (absent.status_code, absent.json()["code"]) == (404, "policy-unknown")
    with site.client(auditor) as http:
        page = http.get("/v1/log/entries?after=1&limit=500").json()
        kinds = [one["entry"]["kind"] for one in page["entries"]]
        assert kinds[-3:] == ["key-created", "key-disabled", "key-enabled"]
        assert page["size"] == len(kinds) + 1
        assert all(
            one["entry"]["actor"] == {"means": "mtls", "name": f"sha256:{owner.pin}"} for one in page["entries"][-3:]
        )
        assert [one["hash"] for one in http.get("/v1/log/tail?lines=3").json()["entries"]] == [
            one["hash"] for one in page["entries"][-3:]
        ]
        assert http.get("/v1/log/checkpoint").text.startswith(f"kms.test/admin\n{page['size']}\n")
        assert http.get("/v1/references").json() == {"references": []}


def test_curl_is_an_administrators_client_too(site: Site) -> None:
    certificate, key = ALICE.write(site.folder, "curl")
    with_files = ["--cert", str(certificate), "--key", str(key), "--cacert", str(site.folder / "server-ca.crt")]
    done = subprocess.run(["curl", "-sS", *with_files, f"{site.url}/v1/grants"], capture_output=True, check=True)
    assert json.loads(done.stdout)["grants"][0]["role"] == "administrator"


@pytest.mark.parametrize(
    "issued",
    [
        None,
        authority("another CA").issue("alice"),
        CA.issue("alice", until=NOW - DAY),
        CA.issue("alice", server=True),
    ],
    ids=["none", "of another authority", "expired", "of a server"],
)
def test_nobody_without_a_certificate_gets_past_the_handshake(site: Site, issued: Issued | None) -> None:
    with site.client(issued) as http, pytest.raises(httpx.TransportError):
        http.get("/v1/whoami", headers={"X-SSL-Client-Verify": "SUCCESS", "X-Client-Cert": ALICE.pin})


def test_a_certificate_that_nobody_granted_anything_is_known_and_may_nothing(site: Site) -> None:
    with site.client(CA.issue("new")) as http:
        assert http.get("/v1/whoami").json()["grants"] == []
        assert http.get("/v1/grants").json()["code"] == "not-permitted"


def test_a_header_says_nothing_of_who_somebody_is(site: Site) -> None:
    headers = {"X-Forwarded-Client-Cert": f"Hash={ALICE.pin}", "X-SSL-Client-SHA256": ALICE.pin, "X-Real-User": "alice"}
    with site.client(CA.issue("mallory"), headers=headers) as http:
        assert http.get("/v1/grants").status_code == 403


def test_mc_31_administration_and_release_share_no_port_and_no_route(site: Site) -> None:
    assert site.served.port != site.served.admin_port
    with httpx.Client(base_url=f"http://127.0.0.1:{site.served.port}") as http:
        assert http.get("/healthz").status_code == 200
        for path in ("/v1/grants", "/v1/whoami", "/v1/keys?tenant=default", "/v1/settings", "/v1/log/tail"):
            assert http.get(path).json()["code"] == "route-unknown"
    with site.client() as http:
        for method, path in (("POST", "/v1/challenges"), ("POST", "/v1/releases"), ("GET", "/v1/identity")):
            assert http.request(method, path, json={}).json()["code"] == "route-unknown"


def test_plain_http_is_not_spoken_there(site: Site) -> None:
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://127.0.0.1:{site.served.admin_port}/v1/whoami")


@pytest.mark.parametrize(
    ("body", "headers", "refusal"),
    [
        (b"{}", {"Content-Type": "text/plain"}, (415, "media-type-unsupported")),
        (b'{"a": 1, "a": 2}', {"Content-Type": "application/json"}, (400, "request-malformed")),
        (b'{"identity": 1}', {"Content-Type": "application/json"}, (422, "request-schema")),
        (b" " * (2 * 1024 * 1024 + 1), {"Content-Type": "application/json"}, (413, "body-too-large")),
    ],
)
def test_a_body_that_is_not_what_it_should_be_is_refused(
    site: Site, body: bytes, headers: dict[str, str], refusal: tuple[int, str]
) -> None:
    with site.client() as http:
        answer = http.post("/v1/grants", content=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == refusal
    assert answer.headers["content-type"] == "application/problem+json"


# -- tokens, and starts that fail


def test_tokens_of_an_issuer_whose_keys_are_fetched_let_people_in(tmp_path: Path) -> None:
    run("init", str(tmp_path / "svc"), "--origin", "kms.test/jwt", "--administrator", f"jwt:{LOGIN.name}|alice")
    servers = authority("servers").write(tmp_path, "issuer-ca")
    with serving({"/jwks": (200, LOGIN.jwks(), {})}, server_context(tmp_path, authority("servers"))) as port:
        place = {"jwks_file": None, "jwks_url": f"https://127.0.0.1:{port}/jwks", "ca_file": str(servers)}
        (tmp_path / "issuers.toml").write_text(LOGIN.table(tmp_path, **place), encoding="utf-8")
        site = start(tmp_path, settings(tmp_path, client_ca=None, issuers=True))
    try:
        token = LOGIN.token("alice", at=system_clock())
        with site.client(None, headers={"Authorization": f"Bearer {token}"}) as http:
            assert http.get("/v1/whoami").json()["identity"] == f"jwt:{LOGIN.name}|alice"
            assert http.get("/v1/grants").status_code == 200
        for headers, code in (
            ({}, "authentication-required"),
            ({"Authorization": f"Bearer {LOGIN.token('alice', at=NOW - DAY)}"}, "token-expired"),
        ):
            with site.client(None, headers=headers) as http:
                answer = http.get("/v1/grants")
            assert (answer.status_code, answer.json()["code"]) == (401, code)
        assert token not in site.log
        assert "eyJ" not in site.log
    finally:
        assert site.served.terminate() == 0


def test_certificates_may_be_known_by_their_uri(tmp_path: Path) -> None:
    run("init", str(tmp_path / "svc"), "--origin", "kms.test/uri", "--administrator", "mtls:uri:spiffe://team/alice")
    site = start(tmp_path, settings(tmp_path, names="uri"))
    try:
        with site.client() as http:
            assert http.get("/v1/grants").status_code == 200
        with site.client(CA.issue("nameless")) as http:
            assert http.get("/v1/whoami").json()["code"] == "authentication-required"
    finally:
        assert site.served.terminate() == 0


def test_mc_31_without_an_administrator_the_listener_does_not_start(tmp_path: Path) -> None:
    run("init", str(tmp_path / "svc"), "--origin", "kms.test/none")
    config = settings(tmp_path)
    said = run("serve", "--config", str(config), "--port", "0", code=2)
    assert "[no-administrator]" in said
    assert "kms admin grant IDENTITY administrator" in said


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("port = 0\n", "admin_certificate_file"),
        ('client_ca_file = "x"\n', "require admin_port"),
        ('port = 0\ncertificate_file = "a"\nkey_file = "b"\n', "to identify administrators"),
        ('port = 8750\ncertificate_file = "a"\nkey_file = "b"\nclient_ca_file = "c"\n', "are the same"),
        ('port = 0\ncertificate_file = "a"\nkey_file = "b"\nclient_ca_file = "c"\nnames = "x"\n', "admin.names"),
        (
            'port = 0\ncertificate_file = "a"\nkey_file = "b"\nclient_ca_file = "c"\ncertificate_names = "cn"\n',
            "admin_certificate_names",
        ),
    ],
)
def test_an_administration_listener_that_is_half_configured_is_refused(tmp_path: Path, line: str, text: str) -> None:
    config = prepare_directory(tmp_path / "svc", origin="kms.test/half", allow_simulated=False)
    config.write_text(config.read_text(encoding="utf-8") + "[admin]\n" + line, encoding="utf-8")
    said = run("config", "show", "--config", str(config), code=2)
    assert "[config-invalid]" in said
    assert text in said
