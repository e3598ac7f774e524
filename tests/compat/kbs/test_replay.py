"""Recorded traffic of the real clients: every request, byte for byte, gets the recorded status or a better one.

The traffic lies beside the repository (``compat/``) and is used where it lies. Nonces, time and keys are
the recorded ones; cookies and tokens that an earlier answer gave are replaced by ours.
"""

import base64
import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from attest.encoding import json_value
from tests.compat.conftest import Step
from tests.conftest import vectors_root
from tests.kms.kbs.face import Face, face_of, write_rules

Exchange = dict[str, Any]  # Any: recorded JSON
RECORDED_KEYS = 5
"""Answers to keys that are recorded: RSA, P-521, P-256, and the passport with RSA, read twice."""
BETTER = {
    "5 default policy": 403,
    "13 get refused": 403,
    "14 get without": 403,
    "10 unknown path": 404,
    "10 two segments": 404,
    "10 plugin uri": 404,
    "16 get deleted": 404,
    "16 delete again": 404,
}
"""Statuses of the step's refusals in place of 401, which would make the client attest again for nothing."""


def recorded(name: str) -> dict[str, Any]:
    """Return the recorded traffic; skip without it, or fail where ATTEST_REQUIRE_VECTORS=1 promises it."""
    folder = vectors_root()
    path = None if folder is None else folder.parent / "compat" / name
    if path is None or not path.is_file():
        if os.environ.get("ATTEST_REQUIRE_VECTORS") == "1":
            pytest.fail("ATTEST_REQUIRE_VECTORS=1, but there is no recorded traffic beside the vectors")
        pytest.skip(f"no recorded traffic {name} here; it lies in compat/ beside the vectors")
    document: dict[str, Any] = json.loads(path.read_bytes())
    return document


class Replay:
    """The service under recorded nonces and recorded time."""

    def __init__(self, face: Face, document: dict[str, Any]) -> None:
        self.face = face
        private = (pem for name, pem in document.get("keys", {}).items() if "public" not in name)
        self.keys = [load_pem_private_key(pem.encode(), None) for pem in private]
        self.exchanges: list[Exchange] = document["exchanges"]
        self.nonces = (
            base64.b64decode(json.loads(one["response"]["body"])["nonce"])
            for one in self.exchanges
            if one["request"]["line"].startswith("POST /kbs/v0/auth") and " 200 " in one["response"]["line"]
        )
        challenges: Any = face.harness.services.challenges
        challenges._random = lambda _size: next(self.nonces)  # noqa: SLF001  they are recorded
        self.cookies: dict[str, str] = {}
        self.tokens: dict[str, str] = {}
        self.opened: list[bytes] = []

    def send(self, one: Exchange) -> Any:  # noqa: ANN401  a response
        """Send a recorded request, with our cookies and tokens in place of the recorded ones."""
        self.face.harness.clock.at = datetime.fromtimestamp(one["at"], tz=UTC)
        method, path, _ = one["request"]["line"].split(" ")
        headers = [(name, self._ours(value)) for name, value in one["request"]["headers"] if name != "content-length"]
        body = one["request"]["body"] or ""
        self.face.http.cookies.clear()
        answer = self.face.http.request(method, path, content=body.encode(), headers=headers)
        self._learn(one, answer)
        return answer

    def _ours(self, value: str) -> str:
        for theirs, ours in {**self.cookies, **self.tokens}.items():
            value = value.replace(theirs, ours)
        return value

    def _learn(self, one: Exchange, answer: Any) -> None:  # noqa: ANN401  a response
        theirs = {name.lower(): value for name, value in one["response"]["headers"]}.get("set-cookie")
        if theirs is not None and answer.status_code == 200:
            self.cookies[theirs.split(";")[0].partition("=")[2]] = re.split("[=;]", answer.headers["set-cookie"])[1]
            document = json.loads(one["response"]["body"])
            if "token" in document:
                self.tokens[document["token"]] = answer.json()["token"]

    def open(self, content: bytes) -> bytes | None:
        """Open an answer as the client does: its additional data is the header, serialised again.

        The keys of most sessions were the client's own and are not recorded; then None.
        """
        document = json_value(content, what="JWE")
        assert isinstance(document, dict)
        assert list(document) == ["protected", "encrypted_key", "iv", "ciphertext", "tag"]
        header = json.loads(raw(document["protected"]))
        epk = {"epk": dict(sorted(header["epk"].items()))} if "epk" in header else {}
        again = json.dumps({"alg": header["alg"], "enc": header["enc"], **epk}, separators=(",", ":"))
        additional = base64.urlsafe_b64encode(again.encode()).rstrip(b"=")
        sealed = raw(document["ciphertext"]) + raw(document["tag"])
        for key in self.keys:
            content_key = unwrapped(key, header, raw(document["encrypted_key"]))
            if content_key is not None:
                return AESGCM(content_key).decrypt(raw(document["iv"]), sealed, additional)
        return None


def raw(text: object) -> bytes:
    """Decode base64url without padding."""
    assert isinstance(text, str)
    assert "=" not in text
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def unwrapped(key: Any, header: dict[str, Any], encrypted: bytes) -> bytes | None:  # noqa: ANN401  any private key
    """Return the content key, if the answer is to this key."""
    if header["alg"] == "RSA-OAEP-256":
        if not isinstance(key, rsa.RSAPrivateKey):
            return None
        return key.decrypt(encrypted, padding.OAEP(padding.MGF1(SHA256()), SHA256(), None))
    curve = {"P-256": ec.SECP256R1(), "P-521": ec.SECP521R1()}[header["epk"]["crv"]]
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != curve.name:
        return None
    x, y = (int.from_bytes(raw(header["epk"][name]), "big") for name in ("x", "y"))
    shared = key.exchange(ec.ECDH(), ec.EllipticCurvePublicNumbers(x, y, curve).public_key())
    algorithm = b"ECDH-ES+A256KW"
    info = len(algorithm).to_bytes(4, "big") + algorithm + bytes(8) + (256).to_bytes(4, "big")
    kek = sha256(b"\0\0\0\1" + shared + info).digest()
    try:
        return aes_key_unwrap(kek, encrypted)
    except Exception:  # noqa: BLE001  another recorded key of the same curve
        return None


@pytest.fixture
def replay(tmp_path: Path) -> Iterator[Replay]:
    document = recorded("kbs-client.json")
    provider = 'issuer = "issuer"\naudience = "kbs"'
    rules = write_rules(tmp_path, keys=document["keys"]["admin-public"].encode(), provider=provider)
    with face_of(tmp_path, rules=rules) as face:
        yield Replay(face, document)


def expected_of(one: Exchange) -> int:
    """Return the recorded status, or the better one."""
    status = int(one["response"]["line"].split(" ")[1])
    variant = json.loads(one["response"]["body"])["type"].rsplit("/", 1)[1] if status == 401 else ""
    refused = variant in {"PolicyDeny", "PluginInternalError"}
    return BETTER.get(one["step"], status) if refused else status


def test_every_recorded_request_gets_its_status_and_every_answer_opens(replay: Replay, step: Step) -> None:
    wrong: list[str] = []
    tokens: dict[str, dict[str, Any]] = {}
    for number, one in enumerate(replay.exchanges):
        answer = replay.send(one)
        if answer.status_code != expected_of(one):
            wrong.append(f"{number} {one['step']}: {answer.status_code}, not {expected_of(one)}: {answer.text[:300]}")
            continue
        if answer.status_code != 200:
            assert set(answer.json()) == {"type", "detail"}
            continue
        path = one["request"]["line"].split(" ")[1]
        if one["request"]["line"].startswith("GET") and "/resource/" in path:
            opened = replay.open(answer.content)
            replay.opened += [] if opened is None else [opened]
        if path.endswith("/attest"):
            tokens[one["step"]] = json.loads(raw(answer.json()["token"].split(".")[1]))
        if "/reference-value/" in path:
            assert answer.text == one["response"]["body"]
    assert wrong == []
    assert len(replay.exchanges) == 134
    for name in dict.fromkeys(one["step"] for one in replay.exchanges):
        step("kbs-client, recorded", name)
    assert replay.opened == [b"x"] * RECORDED_KEYS
    vectors = {step: claims["submods"]["cpu0"]["ear.trustworthiness-vector"] for step, claims in tokens.items()}
    assert {name: vectors["1 attest"][name] for name in ("executables", "hardware", "configuration")} == {
        "executables": 33,
        "hardware": 97,
        "configuration": 2,
    }
    statuses = {step: claims["submods"]["cpu0"]["ear.status"] for step, claims in tokens.items()}
    assert statuses["1 attest"] == "contraindicated"
    assert statuses["12 attest affirming"] == "affirming"
    assert statuses["13 attest warning"] == "warning"
    assert set(tokens["11 device"]["submods"]) == {"cpu0", "gpu0"}


def test_every_recorded_request_of_a_guests_own_programs_gets_its_status(tmp_path: Path, step: Step) -> None:
    """The attestation agent makes the handshake; the confidential data hub reads resources with its token alone."""
    document = recorded("guest-components.json")
    with face_of(tmp_path) as face:
        face.allow_all()
        for path in ("default/test/dummy", "default/model-key/llama"):
            assert face.admin("POST", f"resource/{path}", b"a value").status_code == 200
        replay = Replay(face, document)
        for one in replay.exchanges:
            answer = replay.send(one)
            line = one["request"]["line"]
            step("AA and CDH, recorded", line.removesuffix(" HTTP/1.1"))
            assert answer.status_code == int(one["response"]["line"].split(" ")[1]), (line, answer.text)
