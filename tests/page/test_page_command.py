"""``attest page``: what it serves, to whom, and what it says where it cannot."""

import re
import socket
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from attest.cli.main import cli
from attest.errors import ConfigurationError
from attest.page import evidence_page_files, origin_of, page_digest, page_files
from attest.page.server import HOST, page_server
from tests.page.browser import BUNDLE
from tests.page.served import served

pytestmark = pytest.mark.loopback
EVIDENCE = "evidence.html"


@pytest.fixture
def port() -> Iterator[int]:
    with served(page_server(page_files(service="https://rag.example"), port=0)) as url:
        yield int(url.rpartition(":")[2].strip("/"))


def ask(port: int, path: str, *, method: str = "GET", host: str | None = None) -> httpx.Response:
    headers = {} if host is None else {"host": host}
    return httpx.request(method, f"http://{HOST}:{port}{path}", headers=headers, trust_env=False)


def test_every_file_of_the_page_says_what_a_browser_may_do_with_it(port: int) -> None:
    for path in set(page_files()) - {f"/{EVIDENCE}"}:
        answer = ask(port, path)
        policy = answer.headers["content-security-policy"]
        assert answer.status_code == 200
        assert re.match(
            "default-src 'none'; script-src 'self' 'sha256-[^' ]{44}'; style-src 'self'; connect-src 'self' https://",
            policy,
        )
        for rule in ("frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'"):
            assert rule in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert len(answer.content) == int(answer.headers["content-length"])


def test_the_page_names_each_of_its_parts_by_digest_and_holds_no_script_of_its_own() -> None:
    files = page_files()
    html = files["/"].body.decode()
    named = set(re.findall(r'(?:src|href)="([^"]+)" integrity="sha256-[^"]+"', html))
    mapped = set(re.findall(r'"\./([^"]+)":"sha256-[^"]+"', html))
    assert f"/{EVIDENCE}" in files
    assert {f"/{name}" for name in named | mapped} <= set(files)
    assert re.findall(r"<(?:script|style)>|\son\w+=|style=|javascript:|https?://", html) == []
    assert page_digest() == sha256((BUNDLE / "manifest.json").read_bytes()).hexdigest()


@pytest.mark.parametrize("path", ["/nothing", "/../pyproject.toml", "/page.json/", "/verifier.d.ts"])
def test_there_is_nothing_else(path: str, port: int) -> None:
    assert ask(port, path).status_code == 404


def test_another_hosts_name_that_leads_here_gets_nothing(port: int) -> None:
    assert ask(port, "/", host="evil.example").status_code == 421
    assert ask(port, "/", host=f"localhost:{port}").status_code == 200
    assert ask(port, "/", method="POST").status_code == 501
    head = ask(port, "/", method="HEAD")
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize(
    ("given", "origin"),
    [
        ("https://rag.example", "https://rag.example"),
        ("https://rag.example:443/", "https://rag.example"),
        ("http://127.0.0.1:8460", "http://127.0.0.1:8460"),
        ("http://[::1]:8460", "http://[::1]:8460"),
    ],
)
def test_a_service_is_named_by_its_origin(given: str, origin: str) -> None:
    assert origin_of(given) == origin


@pytest.mark.parametrize(
    "given",
    [
        "",
        "rag.example",
        "ftp://rag.example",
        "javascript:alert(1)",
        "https://",
        "https://rag.example/path",
        "https://rag.example?x",
        "https://user:secret@rag.example",
        "https://rag.example:99999",
        "https://rag.example; script-src *",
        "https://rag.example' https:",
        "https://rag.ex\u00e4mple",
    ],
)
def test_an_address_that_says_more_or_less_is_refused_without_repeating_it(given: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        page_files(service=given)
    assert caught.value.code == "page-address-invalid"
    assert "secret" not in caught.value.message


def test_the_command_says_what_is_wrong() -> None:
    with socket.create_server((HOST, 0)) as taken:
        words = ["page", "https://rag.example", "--no-browser", "--port", str(taken.getsockname()[1])]
        done = CliRunner().invoke(cli, words)
    assert done.exit_code == 2
    assert "Address already in use" in done.stderr
    assert "--port" in done.stderr
    assert CliRunner().invoke(cli, ["page", "--name", "rag.example"]).exit_code == 2
    assert CliRunner().invoke(cli, ["page", "https://rag.example", "--write", "x"]).exit_code == 2
    assert CliRunner().invoke(cli, ["page", "nowhere"]).exit_code == 2
    assert CliRunner().invoke(cli, ["page", "--digest"]).stdout.strip() == page_digest()


# -- without a service


def test_the_page_without_a_service_may_connect_to_nothing() -> None:
    with served(page_server(evidence_page_files(), port=0)) as url:
        found = int(url.rpartition(":")[2].strip("/"))
        policy = ask(found, "/").headers["content-security-policy"]
        assert ask(found, "/page.json").status_code == 404
    assert "connect-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert {file.headers["content-security-policy"] for file in evidence_page_files().values()} == {policy}
    with_service = page_files(service="https://rag.example")[f"/{EVIDENCE}"]
    assert with_service.headers["content-security-policy"] == policy


def test_the_page_without_a_service_states_its_restrictions_itself_and_names_each_part_by_digest() -> None:
    files = evidence_page_files()
    html = files["/"].body.decode()
    [stated] = re.findall(r'http-equiv="content-security-policy"\s+content="([^"]+)"', html)
    header = files["/"].headers["content-security-policy"]
    assert set(stated.split("; ")) == set(header.split("; ")) - {"frame-ancestors 'none'"}
    assert re.findall(r"<(?:script|style)>|\son\w+=|style=|javascript:|https?://", html) == []
    assert {path for path in files if not re.search(r"\.(?:js|css)$|^/$", path)} == set()
    assert "/page.js" not in files
    assert "/evidence.js" in files


def test_the_page_without_a_service_is_written_as_files_for_any_host(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "page"
    for _ in range(2):
        done = CliRunner().invoke(cli, ["page", "--write", str(folder)])
        assert done.exit_code == 0, done.output
        assert done.stdout == f"page: {folder / 'index.html'}\ndigest: {page_digest()}\n"
    written = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert written == {path[1:] or "index.html": file.body for path, file in evidence_page_files().items()}
    (folder / "index.html").write_text("<title>Another page</title>")
    done = CliRunner().invoke(cli, ["page", "--write", str(folder)])
    assert (done.exit_code, (folder / "index.html").read_text()) == (2, "<title>Another page</title>")
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "within"):
        assert CliRunner().invoke(cli, ["page", "--write", str(place)]).exit_code == 2
