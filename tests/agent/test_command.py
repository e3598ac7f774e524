"""`attest agent` as a process, against a real service, asked by curl and by the client as the page says."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from attest.agent import AgentClient, AgentRefusedError, AgentUnavailableError
from attest.cli.main import cli
from attest.evidence.input_files import read_evidence
from attest.release.names import KeyReference
from attest.release.notes import VerifierKey
from attest.sealed import SealingNames
from tests.documentation.shell import free_port
from tests.kms.leaks import found_in_texts
from tests.kms.process import REPOSITORY, START_SECONDS, ServedProcess
from tests.kms.support import MATERIAL
from tests.sealed.made import OWNER, Place, public_pem
from tests.session.serving import key_for, prepared, url_of

pytestmark = pytest.mark.loopback
KEY = key_for("snp")
FILES = {"config.json": b'{"hidden": 384}', "weights.bin": bytes(range(256)) * 8192}
PAGE = (REPOSITORY / "docs" / "agent.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProcess]:
    process = ServedProcess.start(prepared(tmp_path_factory.mktemp("service")))
    yield process
    assert process.terminate() == 0


def rules(folder: Path, served: ServedProcess, *, uid: int, service: str | None = None) -> Path:
    place = Place(folder, files=FILES)
    reference = KeyReference.parse(f"{KEY}@1")
    place.seal(key=MATERIAL, names=SealingNames(key=reference, service=VerifierKey.parse(service or served.identity)))
    (folder / "owner.pem").write_bytes(public_pem(OWNER))
    path = folder / "agent.toml"
    path.write_text(
        f"[peers.me]\nuid = {uid}\n"
        f'[keys.{KEY}]\npeers = ["me"]\n'
        f'[keys."{key_for("tdx")}"]\npeers = ["me"]\n'
        '[models.embedder]\nplace = "sealed"\ntrust = ["owner.pem"]\npeers = ["me"]\n'
    )
    return path


@dataclass
class Life:
    """One life of an agent."""

    process: subprocess.Popen[bytes]
    socket: Path
    log: Path

    @staticmethod
    def begin(folder: Path, served: ServedProcess, rules_: Path) -> "Life":
        life = Life.of(folder, served, rules_)
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and life.process.poll() is None:
            if '"listening at' in life.log.read_text(encoding="utf-8") and life.health() == "ok":
                return life
            time.sleep(0.02)
        life.process.kill()
        raise AssertionError(life.log.read_text(encoding="utf-8"))

    @staticmethod
    def of(folder: Path, served: ServedProcess, rules_: Path) -> "Life":
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ATTEST_", "COV"))}
        known = {"PYTHONPATH": str(REPOSITORY), "ATTEST_KMS_URL": url_of(served), "ATTEST_KMS_KEY": served.identity}
        socket_ = folder / "agent.sock"
        root = Path(tempfile.mkdtemp(dir=folder)) / "root"
        words = ["agent", "--socket", str(socket_), "--rules", str(rules_)]
        log = folder / "agent.log"
        with log.open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.session.driver", str(root), *words], env=kept | known, stderr=file
            )
        return Life(process=process, socket=socket_, log=log)

    def client(self) -> AgentClient:
        return AgentClient(self.socket, uid=os.geteuid())

    def health(self) -> str | None:
        try:
            with self.client() as client:
                document = client.health()
        except (AgentRefusedError, AgentUnavailableError):
            return None
        assert isinstance(document, dict)
        return str(document["status"])

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


@pytest.fixture(scope="module")
def home(served: ServedProcess) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="agent-", dir="/tmp") as name:
        yield Path(name).resolve()


@pytest.fixture(scope="module")
def life(home: Path, served: ServedProcess) -> Iterator[Life]:
    made = Life.begin(home, served, rules(home, served, uid=os.geteuid()))
    yield made
    if made.process.poll() is None:
        assert made.end() == 0


def test_a_container_gets_its_key_and_the_files_that_it_opens(life: Life) -> None:
    with life.client() as agent:
        assert agent.key(KEY) == MATERIAL
        model = agent.model("embedder")
        assert {path: bytes(model.open(path).read(0, size)) for path, size in model.entries.items()} == FILES
        with pytest.raises(AgentRefusedError) as caught:
            agent.key(key_for("tdx"))
    assert (caught.value.status, caught.value.code) == (403, "policy-not-met")
    assert caught.value.failed_checks


def of_page(language: str, socket_: Path) -> str:
    block = PAGE.split(f"```{language}\n")[1].split("```")[0]
    return block.replace("/run/attest/agent.sock", str(socket_)).replace("llama-70b", KEY)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here (Debian: curl)")
def test_the_commands_of_the_page_do_what_they_say(life: Life, tmp_path: Path) -> None:
    commands = of_page("bash", life.socket).strip().splitlines()
    assert len(commands) == 4
    got = [
        subprocess.run(["bash", "-c", one], cwd=tmp_path, capture_output=True, timeout=60, check=True).stdout
        for one in commands
    ]
    assert (tmp_path / "llama.key").read_bytes() == MATERIAL
    assert json.loads(got[1])["key"] == f"{KEY}@1"
    assert got[2:] == [FILES["config.json"]] * 2


def test_the_program_of_the_page_runs(life: Life) -> None:
    found: dict[str, object] = {}
    code = of_page("python", life.socket).replace("65532", str(os.geteuid()))
    exec(compile(code, "agent.md", "exec"), found)  # noqa: S102  our own page
    assert (found["key"], found["config"]) == (MATERIAL, FILES["config.json"])


def test_a_second_agent_is_refused_and_the_first_one_goes_on(life: Life, home: Path, served: ServedProcess) -> None:
    words = ["--socket", str(life.socket), "--rules", str(home / "agent.toml"), "--identity", served.identity]
    ran = CliRunner().invoke(cli, ["agent", *words, "--kms", url_of(served)])
    assert (ran.exit_code, "another agent serves" in ran.stderr) == (2, True)
    assert life.health() == "ok"


def test_a_check_says_whether_it_is_well(life: Life, folder: Path) -> None:
    ran = CliRunner().invoke(cli, ["agent", "--socket", str(life.socket), "--check", "--json"])
    assert (ran.exit_code, json.loads(ran.stdout)["status"]) == (0, "ok")
    assert CliRunner().invoke(cli, ["agent", "--socket", str(life.socket), "--check", "--quiet"]).output == ""
    absent = CliRunner().invoke(cli, ["agent", "--socket", str(folder / "absent"), "--check"])
    assert (absent.exit_code, "hint: does 'attest agent' run" in absent.stderr) == (5, True)


def test_killed_it_leaves_a_stale_socket_and_the_next_one_replaces_it(home: Path, served: ServedProcess) -> None:
    """The last test of the first life: the log of both holds no key, and ending takes the socket away."""
    with tempfile.TemporaryDirectory(prefix="agent-", dir="/tmp") as name:
        folder = Path(name).resolve()
        path = rules(folder, served, uid=os.geteuid())
        first = Life.begin(folder, served, path)
        assert first.end(signal.SIGKILL) == -signal.SIGKILL
        assert first.socket.is_socket()
        assert first.health() is None
        first.log.write_bytes(b"")
        second = Life.begin(folder, served, path)
        with second.client() as agent:
            assert agent.key(KEY) == MATERIAL
        assert second.end() == 0
        assert not second.socket.exists()
        lines = second.lines()
        assert [one["message"] for one in lines][-1] == "ended"
        (request,) = [one for one in lines if one.get("target") == f"/v1/keys/{KEY}"]
        assert (request["uid"], request["status"], request["bytes"]) == (os.geteuid(), 200, 32)
        assert any(one.get("code") == "policy-not-met" for one in lines)
        assert found_in_texts({"log": second.log.read_text(encoding="utf-8")}, [MATERIAL]) == []


def test_a_model_whose_key_another_service_keeps_is_not_opened(served: ServedProcess) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from attest.release import verifier_key

    other = verifier_key("kms.test/other", Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key()).text
    with tempfile.TemporaryDirectory(prefix="agent-", dir="/tmp") as name:
        folder = Path(name).resolve()
        life = Life.begin(folder, served, rules(folder, served, uid=os.geteuid(), service=other))
        try:
            with life.client() as agent, pytest.raises(AgentRefusedError) as caught:
                agent.model("embedder")
            assert (caught.value.status, caught.value.code) == (500, "sealed-service-differs")
        finally:
            assert life.end() == 0


def test_a_dry_run_shows_what_would_be_given_to_whom(folder: Path, served: ServedProcess) -> None:
    path = rules(folder, served, uid=10001)
    words = ["agent", "--rules", str(path), "--dry-run", "--kms", "https://kms.example", "--identity", served.identity]
    ran = CliRunner().invoke(cli, [*words, "--json"])
    assert ran.exit_code == 0, ran.output
    document = json.loads(ran.stdout)
    assert document["schema"] == "attest.agent-config/1"
    assert document["keys"][KEY] == [{"name": "me", "uid": 10001}]
    assert document["models"]["embedder"]["place"] == str(folder / "sealed")
    assert document["settings"]["url"] == {"value": "https://kms.example", "from": "argument url"}
    text = CliRunner().invoke(cli, words)
    assert (text.exit_code, "10001" in text.stdout) == (0, True)
    assert list(folder.glob("*.sock")) == []


def test_a_dry_run_shows_what_other_programs_would_get(folder: Path, served: ServedProcess) -> None:
    path = folder / "agent.toml"
    path.write_text(
        '[cdh]\nanyone_here = "a test"\n[cdh.resources]\n"default/model-key/llama" = "llama@1"\n'
        '[systemd]\nsocket = "/run/s"\n[systemd.units."app.service"]\ndb = "x"\n[systemd.volumes]\ndata = "y"\n'
    )
    words = ["agent", "--rules", str(path), "--dry-run", "--kms", "https://kms.example", "--identity", served.identity]
    document = json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)
    resources = {"default/model-key/llama": "llama@1"}
    assert document["cdh"] == {"port": 8006, "anyone_here": "a test", "evidence": None, "resources": resources}
    units = {"app.service": {"db": "x"}}
    assert document["systemd"] == {"socket": "/run/s", "units": units, "volumes": {"data": "y"}}


def test_interfaces_of_other_programs_begin_with_their_reasons_in_the_log(folder: Path, served: ServedProcess) -> None:
    path, port = folder / "agent.toml", free_port()
    path.write_text(
        f'[cdh]\nanyone_here = "a test"\nevidence = "another reason"\nport = {port}\n'
        f'[cdh.resources]\n"default/model-key/llama" = "{KEY}"\n'
        f'[systemd]\nsocket = "{folder}/s"\n[systemd.volumes]\ndata = "{KEY}"\n'
    )
    life = Life.begin(folder, served, path)
    try:
        with urlopen(f"http://127.0.0.1:{port}/cdh/resource/default/model-key/llama", timeout=30) as answer:
            assert answer.read() == MATERIAL
        with urlopen(f"http://127.0.0.1:{port}/aa/evidence?runtime_data=abc", timeout=30) as answer:
            (item,) = read_evidence([("evidence.json", answer.read())]).evidence.items
        assert item.value[0x50:0x90] == b"abc" + bytes(61)
        assert (folder / "s").is_socket()
    finally:
        assert life.end() == 0
    warnings = [str(line["message"]) for line in life.lines() if line["level"] == "warning"]
    assert any(line.endswith("[cdh.resources]: a test") for line in warnings)
    assert any(line.endswith("of its choice: another reason") for line in warnings)
    assert not (folder / "s").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--check"], "--socket"),
        (["--socket", "x"], "--rules"),
        (["--socket", "x", "--rules", "absent"], "cannot be read"),
        (["--rules", "absent", "--dry-run"], "cannot be read"),
    ],
)
def test_what_is_missing_is_usage(words: list[str], said: str) -> None:
    ran = CliRunner().invoke(cli, ["agent", *words])
    assert (ran.exit_code, said in ran.stderr) == (2, True)
