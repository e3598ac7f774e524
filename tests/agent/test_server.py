"""What the agent gives, and to whom, over a real socket."""

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from attest.agent import AgentRefusedError, AgentUnavailableError, Peer, PeerRule
from attest.agent.config import AgentConfig
from attest.agent.keys import RETRY_SECONDS
from attest.cli.main import cli
from attest.encoding import JsonValue
from attest.errors import EndorsementError, PolicyNotMetError, SealedSourceError, VerificationError
from attest.release.names import KeyReference
from attest.sealed import open_directory, open_file
from attest.sealed.key_sources import key_source
from tests.agent.running import BIG, FILES, KEY, ME, MODEL_KEY, NOT_ME, OTHER, Place, Running, usual
from tests.kms.support import MATERIAL
from tests.sealed.made import OWNER

NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user takes root (id -u: not 0)")


def as_user(uid: int, gid: int, code: str, *arguments: object) -> str:
    """Run Python that becomes another user as soon as it runs: the interpreter may lie where only this one may look."""
    become = f"import os, socket, sys\nos.setgroups([])\nos.setgid({gid})\nos.setuid({uid})\n"
    ran = subprocess.run(
        [sys.executable, "-I", "-c", become + code, *map(str, arguments)],
        cwd="/",
        env={},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


ASK = """
sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
sock.settimeout(30)
sock.connect(sys.argv[1])
try:
    sock.sendall(b"GET " + sys.argv[2].encode() + b" HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n")
except BrokenPipeError:
    pass  # turned away already
data = b""
while True:
    try:
        more = sock.recv(65536)
    except ConnectionResetError:
        break
    if not more:
        break
    data += more
print(data.partition(b" ")[2][:3].decode(), data.rpartition(b"\\r\\n\\r\\n")[2].hex())
"""


# -- keys


def test_a_peer_gets_its_key_as_raw_bytes_that_nobody_stores(running: Running) -> None:
    said = running.ask(f"/v1/keys/{KEY}")
    assert (said.status, said.body) == (200, MATERIAL)
    assert said.headers["content-type"] == "application/octet-stream"
    assert said.headers["cache-control"] == "no-store"
    assert said.headers["attest-key-version"] == "7"
    assert said.headers["attest-lease-expires"].endswith("Z")


def test_the_client_gets_keys_and_files_in_one_line_each(running: Running) -> None:
    with running.client() as agent:
        assert agent.key(KEY) == MATERIAL
        model = agent.model("llama")
        assert dict(model.entries) == {name: len(content) for name, content in FILES.items()}
        for name, content in FILES.items():
            with open_file(model, name) as file:
                assert file.read() == content
        with open_file(model, BIG) as file:
            file.seek(-5, 2)
            assert file.read() == FILES[BIG][-5:]
            assert file.read(1) == b""


def test_the_client_is_where_a_sealed_model_that_is_opened_here_gets_its_key(folder: Path, place: Place) -> None:
    served = replace(usual(place).keys[0], reference=KeyReference.parse(MODEL_KEY))
    config = AgentConfig(peers=(ME,), keys=(served,))
    with (
        Running.start(folder, place, config=config) as running,
        running.client() as agent,
        open_directory(place.sealed, key=key_source(agent), trusted=(OWNER.public_key(),)) as model,
    ):
        assert bytes(model.read("config.json")) == FILES["config.json"]


def test_what_there_is_not_and_what_is_anothers_look_the_same(running: Running) -> None:
    others = running.ask(f"/v1/keys/{OTHER}")
    unknown = running.ask("/v1/keys/nobodys")
    assert (others.status, others.code, others.body) == (404, "agent-unknown", unknown.body)
    assert running.ask("/v1/models/others").body == running.ask("/v1/models/nobodys").body
    assert running.ask("/v1/models/others/files/config.json").code == "agent-unknown"


@pytest.mark.parametrize("name", ["acme/llama@7", "acme/llama@1", "acme", "llama", "ACME/LLAMA", "acme/llama/", ""])
def test_a_name_is_the_configured_one_or_none(running: Running, name: str) -> None:
    assert running.ask(f"/v1/keys/{name}").code == "agent-unknown"


def test_a_slash_may_be_written_either_way(running: Running) -> None:
    assert running.ask("/v1/keys/acme%2Fllama").body == MATERIAL


# -- who asks


def test_a_rule_means_whoever_fits_all_of_it() -> None:
    peer = Peer(uid=10, gid=20, pid=1)
    assert PeerRule(name="a", uid=10, gid=None).admits(peer)
    assert PeerRule(name="a", uid=None, gid=20).admits(peer)
    assert PeerRule(name="a", uid=10, gid=20).admits(peer)
    assert not PeerRule(name="a", uid=10, gid=21).admits(peer)
    assert not PeerRule(name="a", uid=11, gid=20).admits(peer)
    assert not PeerRule(name="a", uid=0, gid=None).admits(peer)
    assert not PeerRule(name="a", uid=None, gid=0).admits(peer)
    with pytest.raises(ValueError, match="user, a group or both"):
        PeerRule(name="a", uid=None, gid=None)


def test_without_rules_nobody_is_known_and_nobody_gets_anything(place: Place) -> None:
    config = replace(usual(place), peers=())
    assert not config.knows(Peer(uid=0, gid=0, pid=1))
    emptied = replace(config, keys=tuple(replace(one, peers=()) for one in config.keys))
    assert emptied.key_for(Peer(uid=ME.uid or 0, gid=0, pid=1), KEY) is None


def test_whoever_no_rule_means_is_turned_away_unread(folder: Path, place: Place) -> None:
    config = replace(usual(place), peers=(NOT_ME,))
    with Running.start(folder, place, config=config, own_uid=4_000_000) as running:
        with running.connect() as raw:
            said = raw.said()
            assert (said.status, said.code, said.whole) == (403, "agent-peer-refused", True)
            assert raw.rest() == b""
        with running.client() as agent, pytest.raises(AgentRefusedError) as caught:
            agent.key(KEY)
        assert (caught.value.code, caught.value.status) == ("agent-peer-refused", 403)


def test_the_agents_own_user_learns_whether_it_is_well_and_gets_nothing(folder: Path, place: Place) -> None:
    config = AgentConfig(
        peers=(NOT_ME,),
        keys=tuple(replace(one, peers=(NOT_ME,)) for one in usual(place).keys),
        models=(place.served(NOT_ME),),
    )
    with Running.start(folder, place, config=config) as running:
        health = json.loads(running.ask("/healthz").body)
        assert (health["keys"], health["models"]) == ({}, {})
        assert running.ask(f"/v1/keys/{KEY}").code == "agent-unknown"
        assert running.ask("/v1/models/llama").code == "agent-unknown"


@AS_ROOT
def test_the_kernel_says_who_connects(folder: Path, place: Place) -> None:
    alice, group = 10_001, 20_001
    rules = (PeerRule(name="alice", uid=alice, gid=None), PeerRule(name="both", uid=10_002, gid=group))
    config = AgentConfig(peers=rules, keys=(replace(usual(place).keys[0], peers=rules),))
    with Running.start(folder, place, config=config) as running:
        folder.chmod(0o755)
        running.path.chmod(0o666)
        target = f"/v1/keys/{KEY}"
        assert as_user(alice, 1, ASK, running.path, target).split() == ["200", MATERIAL.hex()]
        assert as_user(10_002, group, ASK, running.path, target).split() == ["200", MATERIAL.hex()]
        for uid, gid in ((10_002, 1), (10_003, group), (NOBODY, NOBODY), (NOBODY, group)):
            status, body = as_user(uid, gid, ASK, running.path, target).split()
            assert (status, json.loads(bytes.fromhex(body))["code"]) == ("403", "agent-peer-refused"), (uid, gid)


@AS_ROOT
def test_the_sockets_mode_keeps_others_out_before_anything_is_asked(running: Running) -> None:
    running.path.parent.chmod(0o755)
    code = """
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
except PermissionError:
    print("refused")
"""
    assert as_user(10_001, 1, code, running.path) == "refused\n"


def test_the_client_believes_nobody_but_the_user_that_it_names(running: Running) -> None:
    with running.client(uid=os.geteuid() + 1) as agent:
        for ask in (lambda: agent.key(KEY), lambda: agent.model("llama"), agent.health):
            with pytest.raises(VerificationError) as caught:
                ask()
            assert caught.value.code == "agent-not-genuine"


# -- models


def test_a_file_is_sent_whole_and_says_what_it_is(running: Running) -> None:
    for name, content in FILES.items():
        said = running.ask(f"/v1/models/llama/files/{name}")
        assert (said.status, said.body == content) == (200, True)
        assert said.headers["accept-ranges"] == "bytes"
    head = running.ask(f"/v1/models/llama/files/{BIG}", method="HEAD")
    assert (head.status, head.headers["content-length"], head.body) == (200, str(len(FILES[BIG])), b"")


def test_a_list_names_every_file_with_size_and_fingerprint(running: Running) -> None:
    from hashlib import sha256

    document = json.loads(running.ask("/v1/models/llama").body)
    assert document["schema"] == "attest.agent-model/1"
    assert {one["path"]: (one["size"], one["sha256"]) for one in document["files"]} == {
        name: (len(content), sha256(content).hexdigest()) for name, content in FILES.items()
    }


@pytest.mark.parametrize(
    "path",
    [
        "../config.json",
        "..%2fconfig.json",
        "%2e%2e/%2e%2e/etc/passwd",
        "%2Fetc%2Fpasswd",
        "weights/../config.json",
        "./config.json",
        "config.json/",
        "weights",
        "sealed.json",
        "model.sig",
        "config.json.sealed",
        "config.json%00",
        "CONFIG.JSON",
        "",
        "/config.json",
        "weights//big.bin",
        "%252e%252e/config.json",
    ],
)
def test_only_names_of_the_signed_manifest_lead_to_a_file(running: Running, path: str) -> None:
    said = running.ask(f"/v1/models/llama/files/{path}")
    assert (said.status, said.code) == (404, "agent-unknown")


SIZE = len(FILES[BIG])
SEGMENT = (1 << 20) - 16 - 40


@pytest.mark.parametrize(
    ("text", "first", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=0-", 0, SIZE),
        (f"bytes={SIZE - 1}-", SIZE - 1, SIZE),
        (f"bytes=5-{SIZE + 5}", 5, SIZE),
        ("bytes=-1", SIZE - 1, SIZE),
        (f"bytes=-{SIZE + 1}", 0, SIZE),
        (f"bytes={SEGMENT - 1}-{SEGMENT}", SEGMENT - 1, SEGMENT + 1),
        (f"bytes={SEGMENT}-{SEGMENT}", SEGMENT, SEGMENT + 1),
        ("bytes=100-3000000", 100, 3_000_001),
        ("Bytes= 7-9 ", 7, 10),
    ],
)
def test_a_range_is_that_part(running: Running, text: str, first: int, end: int) -> None:
    said = running.ask(f"/v1/models/llama/files/{BIG}", f"Range: {text}")
    assert (said.status, said.body == FILES[BIG][first:end]) == (206, True)
    assert said.headers["content-range"] == f"bytes {first}-{end - 1}/{SIZE}"


@pytest.mark.parametrize(
    "text",
    [f"bytes={SIZE}-", "bytes=5-4", "bytes=-0", "bytes=-", "bytes=", "bytes=a-b", "bytes=0-1,3-4", "bytes=--1",
     "bytes=0x1-2", "bytes=1-2-3", f"bytes={'9' * 30}-", "bytes=\u0663-"],
)  # fmt: skip
def test_what_is_no_range_of_the_file_is_refused(running: Running, text: str) -> None:
    said = running.ask(f"/v1/models/llama/files/{BIG}", f"Range: {text}")
    assert (said.status, said.code, said.headers["content-range"]) == (416, "agent-range-invalid", f"bytes */{SIZE}")


def test_two_headers_are_two_ranges_and_refused(running: Running) -> None:
    said = running.ask(f"/v1/models/llama/files/{BIG}", "Range: bytes=0-1", "Range: bytes=0-1")
    assert said.code == "agent-range-invalid"


def test_an_empty_file_has_no_range(running: Running) -> None:
    assert running.ask("/v1/models/llama/files/empty", "Range: bytes=0-0").status == 416


def test_another_unit_and_another_files_tag_give_the_whole(running: Running) -> None:
    target = f"/v1/models/llama/files/{BIG}"
    assert running.ask(target, "Range: lines=0-1").status == 200
    etag = running.ask(target, method="HEAD").headers["etag"]
    assert running.ask(target, "Range: bytes=0-1", f"If-Range: {etag}").status == 206
    assert running.ask(target, "Range: bytes=0-1", 'If-Range: "other"').status == 200


def test_a_segment_that_was_altered_breaks_the_answer_off_before_it(folder: Path, place: Place, tmp_path: Path) -> None:
    import shutil

    copy = replace(place, sealed=tmp_path / "copy")
    shutil.copytree(place.sealed, copy.sealed)
    file = copy.sealed / f"{BIG}.sealed"
    content = bytearray(file.read_bytes())
    content[3 << 20] ^= 1
    file.write_bytes(content)
    with Running.start(folder, copy) as running:
        said = running.ask(f"/v1/models/llama/files/{BIG}")
        assert (said.status, said.whole) == (200, False)
        assert said.body == FILES[BIG][: len(said.body)]
        assert len(said.body) < 3 << 20
        first = running.ask(f"/v1/models/llama/files/{BIG}", f"Range: bytes={3 << 20}-")
        assert (first.status, first.code) == (500, "sealed-segment-invalid")
        with running.client() as agent, pytest.raises(AgentRefusedError):
            agent.model("llama").open(BIG).read(3 << 20, 100)
        whole = bytearray(b"x" * SIZE)
        with running.client() as agent, pytest.raises(AgentUnavailableError) as caught:
            agent.model("llama").open(BIG).read_into(0, whole)
        assert (caught.value.code, bytes(whole)) == ("agent-unreachable", bytes(SIZE))


def test_a_model_of_another_owner_is_not_opened(folder: Path, place: Place) -> None:
    from tests.sealed.made import STRANGER

    config = replace(usual(place), models=(place.served(ME, trusted=(STRANGER.public_key(),)),))
    with Running.start(folder, place, config=config) as running:
        said = running.ask("/v1/models/llama")
        assert said.status == 500
        assert said.code.startswith("model-") or "signature" in said.code
        assert MODEL_KEY not in running.session.asked


# -- leases


def test_a_lost_lease_ends_its_key_at_once_and_says_why(running: Running) -> None:
    assert running.ask(f"/v1/keys/{KEY}").status == 200
    running.session.lose(KEY)
    said = running.ask(f"/v1/keys/{KEY}")
    assert (said.status, said.code, said.headers["retry-after"]) == (410, "lease-renewal-refused", "15")
    assert running.ask("/v1/models/llama").status == 200
    assert json.loads(running.ask("/healthz").body)["keys"] == {KEY: "missing"}


def test_after_a_while_the_service_is_asked_again(running: Running) -> None:
    running.ask(f"/v1/keys/{KEY}")
    running.session.lose(KEY)
    asked = len(running.session.asked)
    for _ in range(5):
        assert running.ask(f"/v1/keys/{KEY}").status == 410
    assert len(running.session.asked) == asked
    running.ticks.ahead += RETRY_SECONDS + 1
    assert running.ask(f"/v1/keys/{KEY}").body == MATERIAL


def test_a_refusal_says_which_checks_failed_and_is_not_asked_for_again_at_once(folder: Path, place: Place) -> None:
    failed: tuple[JsonValue, ...] = ({"id": "policy.snp.measurement"},)
    with Running.start(folder, place) as running:
        running.ask(f"/v1/keys/{KEY}")
        running.session.lose(KEY)
        running.ticks.ahead += RETRY_SECONDS + 1
        running.session.fault = PolicyNotMetError("no", code="policy-not-met", status=403, failed_checks=failed)
        asked = len(running.session.asked)
        for _ in range(3):
            said = running.ask(f"/v1/keys/{KEY}")
            assert (said.status, said.code) == (403, "policy-not-met")
            assert json.loads(said.body)["failed_checks"] == list(failed)
        assert len(running.session.asked) == asked + 1
        with running.client() as agent, pytest.raises(AgentRefusedError) as caught:
            agent.key(KEY)
        assert caught.value.failed_checks == failed
        assert caught.value.retry_after == RETRY_SECONDS


def test_a_service_that_cannot_be_reached_is_503(folder: Path, place: Place) -> None:
    with Running.start(folder, place) as running:
        running.ask(f"/v1/keys/{KEY}")
        running.session.lose(KEY)
        running.ticks.ahead += RETRY_SECONDS + 1
        running.session.fault = EndorsementError("away", code="service-unreachable", retryable=True)
        assert running.ask(f"/v1/keys/{KEY}").status == 503


def test_a_lost_lease_breaks_open_answers_off_and_closes_the_model(running: Running) -> None:
    with running.connect() as raw:
        raw.send(f"GET /v1/models/llama/files/{BIG} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        status, headers, begun = raw.head()
        running.session.lose(MODEL_KEY)  # while the agent waits for this reader
        body = begun + raw.rest()
    assert (status, int(headers["content-length"])) == (200, SIZE)
    assert len(body) < SIZE
    assert body == FILES[BIG][: len(body)]
    said = running.ask(f"/v1/models/llama/files/{BIG}")
    assert (said.status, said.code) == (410, "lease-renewal-refused")
    assert running.ask("/v1/models/llama").status == 410
    assert running.ask(f"/v1/keys/{KEY}").status == 200
    assert json.loads(running.ask("/healthz").body)["models"] == {"llama": "closed"}
    running.ticks.ahead += RETRY_SECONDS + 1
    assert running.ask(f"/v1/models/llama/files/{BIG}").body == FILES[BIG]


def test_a_client_whose_lease_is_lost_gets_an_error_and_no_part(running: Running) -> None:
    with running.client() as agent:
        file = agent.model("llama").open(BIG)
        assert bytes(file.read(0, 10)) == FILES[BIG][:10]
        running.session.lose(MODEL_KEY)
        buffer = bytearray(b"x" * 10)
        with pytest.raises(AgentRefusedError) as caught:
            file.read_into(0, buffer)
        assert (caught.value.code, caught.value.status, bytes(buffer)) == ("lease-renewal-refused", 410, bytes(10))


def test_a_client_gets_no_mixture_of_two_sealings_of_a_model(folder: Path, tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    (tmp_path / "older").mkdir()
    older = Place.make(tmp_path / "older", seed="older").sealed
    with Running.start(folder, place) as running, running.client() as agent:
        file = agent.model("llama").open(BIG)
        assert bytes(file.read(0, 10)) == FILES[BIG][:10]
        running.session.lose(MODEL_KEY)
        running.ticks.ahead += RETRY_SECONDS + 1
        place.sealed.rename(tmp_path / "newer")
        older.rename(place.sealed)
        buffer = bytearray(b"x" * 10)
        with pytest.raises(SealedSourceError) as caught:
            file.read_into(10, buffer)
        assert (caught.value.code, bytes(buffer)) == ("sealed-source-changed", bytes(10))
        assert bytes(agent.model("llama").open(BIG).read(0, 10)) == FILES[BIG][:10]


def test_a_model_that_is_pinned_is_that_sealing_or_none(folder: Path, place: Place) -> None:
    config = replace(usual(place), models=(place.served(ME, model_id=bytes(16)),))
    with Running.start(folder, place, config=config) as running:
        said = running.ask("/v1/models/llama")
        assert (said.status, said.code) == (500, "sealed-model-mismatch")
        assert MODEL_KEY not in running.session.asked


def test_many_that_ask_at_once_for_what_is_refused_ask_once(folder: Path, place: Place) -> None:
    with Running.start(folder, place) as running:
        running.ask(f"/v1/keys/{KEY}")
        running.session.lose(KEY)
        running.ticks.ahead += RETRY_SECONDS + 1
        running.session.fault = PolicyNotMetError("no", code="policy-not-met", status=403, failed_checks=())
        asked, statuses = running.session.asked.count(KEY), []
        threads = [
            threading.Thread(target=lambda: statuses.append(running.ask(f"/v1/keys/{KEY}").status)) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert statuses == [403] * 8
        assert running.session.asked.count(KEY) == asked + 1


# -- health


def test_health_names_what_the_peer_gets_and_nothing_else(running: Running) -> None:
    said = running.ask("/healthz")
    assert said.status == 200
    assert json.loads(said.body) == {
        "schema": "attest.agent-health/1",
        "status": "ok",
        "keys": {KEY: "held"},
        "models": {"llama": "open"},
    }


def test_until_everything_was_asked_for_it_says_that_it_starts(folder: Path, place: Place) -> None:
    with Running.start(folder, place, wait=False) as running, running.client() as agent:
        said = running.ask("/healthz")
        assert (said.status, json.loads(said.body)["status"]) == (503, "starting")
        document = agent.health()
        assert isinstance(document, dict)
        assert document["status"] == "starting"
        check = CliRunner().invoke(cli, ["agent", "--socket", str(running.path), "--check", "--json"])
        assert (check.exit_code, json.loads(check.stdout)["status"]) == (1, "starting")
        running.session.gate.set()
        for one in threading.enumerate():
            if one.name == "agent-start":
                one.join(30)
        assert agent.health() == document | {"status": "ok", "keys": {KEY: "held"}, "models": {"llama": "open"}}


# -- logs


def test_the_log_says_who_got_what_and_holds_no_key(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    from attest.agent.logs import _JsonLines
    from tests.kms.leaks import found_in_texts

    running.ask(f"/v1/keys/{KEY}", "Authorization: Bearer of-somebody")
    running.ask("/v1/keys/%0aforged")
    running.session.lose(KEY)
    running.agent.stop()
    running.thread.join(30)
    lines = [_JsonLines().format(record) for record in caplog.records]
    documents = [json.loads(line) for line in lines]
    (got,) = [one for one in documents if one.get("target") == f"/v1/keys/{KEY}"]
    assert (got["uid"], got["status"], got["bytes"], got["outcome"]) == (os.geteuid(), 200, 32, "sent")
    assert any("is no longer served" in one["message"] for one in documents)
    assert all("\n" not in line for line in lines)
    assert "of-somebody" not in "".join(lines)
    assert found_in_texts({"log": "\n".join(lines)}, [MATERIAL]) == []
