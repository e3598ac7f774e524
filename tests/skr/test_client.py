"""Releases from a vault that a specification describes: honest, and lying in every point that a client must check."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.keywrap import aes_key_wrap_with_padding

from attest.errors import (
    AttestError,
    BindingError,
    ChainError,
    CollectionError,
    ConfigurationError,
    EndorsementError,
    EvidenceError,
    KeyUnknownError,
    PolicyNotMetError,
    ReleaseRefusedError,
    ServiceUnreachableError,
    SignatureError,
    UnsupportedError,
    VerificationError,
)
from attest.policy.foreign.skr import parse_skr
from attest.results import read_public_keys
from attest.results.token_roots import read_token_roots
from attest.skr import SkrClient, SkrKey, VaultKey
from attest.skr.encryption_key import EncryptionKey
from attest.skr.guest import MachineSkrGuest
from attest.skr.problems import DENIAL_HINTS
from attest.skr.released_key import require_name
from tests.collect.azure_vm import software_vm
from tests.collect.fake_machine import FakeMachine, plain_machine, snp_machine, tdx_machine
from tests.skr.conftest import PKI, TOKEN
from tests.skr.fake_vault import (
    KEYS,
    OTHER_SIGNER,
    POLICY,
    SIGNER,
    VERSION,
    FakeVault,
    Json,
    Pki,
    der,
    material,
    pem,
    unb64url,
    wrapped,
)
from tests.skr.known_answer import CIPHERTEXT, EXPONENT, KEY, MATERIAL

pytestmark = pytest.mark.loopback
OTHER_PKI = Pki()


@pytest.fixture
def guest(tmp_path: Path) -> MachineSkrGuest:
    return MachineSkrGuest.of(snp_machine(tmp_path / "root").access)


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    return tmp_path / "ca.pem"


Release = Callable[..., SkrKey]


@pytest.fixture
def release(vault: FakeVault, guest: MachineSkrGuest, ca: Path) -> Iterator[Release]:
    """Release a key from the vault."""
    with ExitStack() as clients:

        def call(version: str | None = None, **more: Any) -> SkrKey:  # noqa: ANN401  passed on
            settings = {"roots": read_token_roots(pem(PKI.root)), "bearer": lambda: TOKEN, "guest": guest, **more}
            client = clients.enter_context(SkrClient(vault.url, tls_ca=ca, kek_bits=2048, **settings))
            return client.release(vault.address(version))

        yield call


def refused(release: Release, **more: Any) -> AttestError:  # noqa: ANN401  passed on
    with pytest.raises(AttestError) as caught:
        release(**more)
    return caught.value


def put(path: str, value: object) -> Callable[[Json], Json]:
    """Change a member of a document, or take it away (``...``)."""

    def change(document: Json) -> Json:
        *before, last = path.split(".")
        place = document
        for name in before:
            place = place[name]
        if value is ...:
            del place[last]
        else:
            place[last] = value
        return document

    return change


# -- an honest vault


@pytest.mark.parametrize("kind", KEYS)
def test_a_key_of_each_type_is_released(vault: FakeVault, release: Release, kind: str) -> None:
    vault.key = kind
    with release() as key:
        assert key.export() == material(KEYS[kind])
        assert key.kty == {"rsa": "RSA", "oct": "oct"}.get(kind, "EC")
        assert str(key.address) == f"{vault.url}/keys/model/{VERSION}"


def test_a_named_version_is_released(vault: FakeVault, release: Release) -> None:
    assert release(VERSION).name == f"{vault.url}/keys/model/{VERSION}"


def test_a_tdx_guest_gets_its_key(vault: FakeVault, release: Release, tmp_path: Path) -> None:
    guest = MachineSkrGuest.of(tdx_machine(tmp_path / "td").access)
    assert release(guest=guest).export() == material(KEYS["rsa"])
    assert vault.asked[0][0] == "/attest/TdxVm?api-version=2025-06-01"


def test_each_release_has_a_key_and_a_nonce_of_its_own(vault: FakeVault, release: Release) -> None:
    for _ in range(2):
        release()
    keys = [
        json.loads(unb64url(body["runtimeData"]["data"]))["keys"][0]["n"]
        for path, body in vault.asked
        if path.startswith("/attest/")
    ]
    nonces = [body["nonce"] for path, body in vault.asked if "/release" in path]
    assert len(set(keys)) == len(set(nonces)) == 2
    assert all(len(unb64url(nonce)) == 32 for nonce in nonces)
    assert vault.bearers == [f"Bearer {TOKEN}"] * 2


def test_the_keys_of_the_verifier_can_be_given(vault: FakeVault, release: Release) -> None:
    keys = vault.get("/certs")[2]
    vault.asked.clear()
    release(verifier_keys=read_public_keys(keys))
    assert all("certs" not in path and "well-known" not in path for path, _ in vault.asked)


def test_the_expected_policy_is_compared_as_it_is_read(vault: FakeVault, release: Release) -> None:
    vault.policy = POLICY.replace(b'"https://localhost"', b' "https://LOCALHOST/" ')
    assert release(policy=parse_skr(POLICY)).kty == "RSA"


def test_a_wildcard_names_the_first_label_alone() -> None:
    leaf = PKI.leaf(SIGNER.public_key(), "*.vault.example")
    require_name(leaf, "mine.vault.example")
    for host in ("vault.example", "a.b.vault.example", "vault", "mine.vault.example.org"):
        with pytest.raises(ChainError):
            require_name(leaf, host)


def test_the_known_ciphertext_opens() -> None:
    numbers = {name: int.from_bytes(unb64url(text), "big") for name, text in KEY.items()}
    private = rsa.RSAPrivateNumbers(
        p=numbers["p"],
        q=numbers["q"],
        d=numbers["d"],
        dmp1=numbers["dp"],
        dmq1=numbers["dq"],
        iqmp=numbers["qi"],
        public_numbers=rsa.RSAPublicNumbers(EXPONENT, numbers["n"]),
    ).private_key()
    key = EncryptionKey(private)
    assert key.unwrap(unb64url(CIPHERTEXT)) == MATERIAL
    assert repr(key) == f"EncryptionKey(kid={key.kid!r})"
    with pytest.raises(TypeError, match="does not leave its process"):
        key.__reduce__()
    key.close()
    with pytest.raises(ValueError, match="closed"):
        key.unwrap(unb64url(CIPHERTEXT))


# -- section 14, point 1: who signed


def signed_by(key: rsa.RSAPrivateKey, algorithm: str = "RS256") -> Callable[[Json, Json], str]:
    return lambda payload, header: jwt.encode(payload, key, algorithm, headers=header)


def unsigned(payload: Json, header: Json) -> str:
    return jwt.encode(payload, "", "none", headers=header)


@pytest.mark.parametrize("sign", [signed_by(SIGNER, "RS512"), signed_by(SIGNER, "PS256"), unsigned])
def test_another_algorithm_than_rs256_is_refused(vault: FakeVault, release: Release, sign: Any) -> None:  # noqa: ANN401
    vault.sign = sign
    error = refused(release)
    assert (type(error), error.code) == (SignatureError, "token-algorithm-refused")


def test_a_signature_by_another_key_than_the_certified_one_is_refused(vault: FakeVault, release: Release) -> None:
    vault.sign = signed_by(OTHER_SIGNER)
    error = refused(release)
    assert (type(error), error.code) == (SignatureError, "token-signature-invalid")


def chained(*certificates: Any) -> Callable[[Json], Json]:  # noqa: ANN401
    return put("x5c", [der(one) for one in certificates])


CHAINS: dict[str, tuple[Callable[[Json], Json], type[AttestError], str]] = {
    "no chain": (put("x5c", ...), ChainError, "token-chain-invalid"),
    "a chain to another root": (
        chained(OTHER_PKI.leaf(SIGNER.public_key(), "localhost"), OTHER_PKI.root),
        ChainError,
        "token-chain-invalid",
    ),
    "a leaf that another root issued": (
        chained(OTHER_PKI.leaf(SIGNER.public_key(), "localhost"), PKI.root),
        ChainError,
        "token-chain-invalid",
    ),
    "an expired leaf": (
        chained(PKI.leaf(SIGNER.public_key(), "localhost", began=9, days=2), PKI.root),
        ChainError,
        "token-chain-invalid",
    ),
    "a leaf of tomorrow": (
        chained(PKI.leaf(SIGNER.public_key(), "localhost", began=-1), PKI.root),
        ChainError,
        "token-chain-invalid",
    ),
    "a leaf of another vault": (
        chained(PKI.leaf(SIGNER.public_key(), "other.example"), PKI.root),
        ChainError,
        "skr-signer-mismatch",
    ),
    "a leaf of a client": (
        chained(PKI.leaf(SIGNER.public_key(), "localhost", client=True), PKI.root),
        ChainError,
        "skr-signer-mismatch",
    ),
    "a key in the header": (put("jwk", {}), EvidenceError, "token-malformed"),
    "an address in the header": (put("jku", "https://other.example"), EvidenceError, "token-malformed"),
}


@pytest.mark.parametrize("name", CHAINS)
def test_an_answer_is_signed_by_a_certificate_of_the_vault(vault: FakeVault, release: Release, name: str) -> None:
    vault.header, kind, code = CHAINS[name]
    error = refused(release)
    assert (type(error), error.code) == (kind, code)


# -- point 2: which request

ECHOES: dict[str, tuple[str, object]] = {
    "another nonce": ("request.nonce", "another"),
    "no nonce": ("request.nonce", ...),
    "another algorithm": ("request.enc", "CKM_RSA_AES_KEY_WRAP"),
    "another key": ("request.kid", "https://localhost/keys/other"),
    "no address": ("request.kid", "model"),
    "a list as key": ("request.kid", []),
    "another key in the answer": ("response.key.key.kid", f"https://localhost/keys/model/{VERSION}"),
    "no request": ("request", ...),
    "no response": ("response", []),
}


@pytest.mark.parametrize("name", ECHOES)
def test_an_answer_repeats_its_request(vault: FakeVault, release: Release, name: str) -> None:
    path, value = ECHOES[name]
    vault.payload = put(path, value)
    error = refused(release)
    assert (type(error), error.code) == (BindingError, "skr-answer-mismatch")
    assert error.field is not None
    assert error.field.startswith(path)


def test_another_version_than_the_named_one_is_refused(vault: FakeVault, release: Release) -> None:
    vault.payload = put("response.key.key.kid", vault.address("f" * 32))
    error = refused(release, version=VERSION)
    assert (error.code, error.field) == ("skr-answer-mismatch", "response.key.key.kid")


def test_the_request_is_repeated_as_it_was_made(vault: FakeVault, release: Release) -> None:
    vault.payload = put("request.kid", vault.address(VERSION))
    error = refused(release)
    assert (error.code, error.field) == ("skr-answer-mismatch", "request.kid")


# -- point 3: encrypted to which key

ENVELOPES: dict[str, tuple[str, object]] = {
    "another key": ("header.kid", "another"),
    "another algorithm": ("header.enc", "RSA_AES_KEY_WRAP_384"),
    "another way": ("header.alg", "RSA-OAEP"),
    "another schema": ("schema_version", "2.0"),
    "no ciphertext": ("ciphertext", ...),
}


@pytest.mark.parametrize("name", ENVELOPES)
def test_a_key_is_encrypted_to_the_key_of_this_release(vault: FakeVault, release: Release, name: str) -> None:
    path, value = ENVELOPES[name]
    vault.hsm = put(path, value)
    error = refused(release)
    assert (type(error), error.code, error.field) == (BindingError, "skr-answer-mismatch", f"key_hsm.{path}")


# -- point 4: what is inside


def without_end(kek: Json, content: bytes) -> bytes:
    return wrapped(kek, content)[: 256 + 8]


def altered(kek: Json, content: bytes) -> bytes:
    return wrapped(kek, content)[:-1] + b"\0"


def too_long(kek: Json, content: bytes) -> bytes:
    return wrapped(kek, content * 20)


def with_sha1(kek: Json, content: bytes) -> bytes:
    return wrapped(kek, content, oaep=hashes.SHA1())  # noqa: S303  the older algorithm of the protocol


def with_a_short_key(kek: Json, content: bytes) -> bytes:
    n, e = (int.from_bytes(unb64url(kek[name]), "big") for name in ("n", "e"))
    oaep = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)
    first = rsa.RSAPublicNumbers(e, n).public_key().encrypt(bytes(16), oaep)
    return first + aes_key_wrap_with_padding(bytes(16), content)


@pytest.mark.parametrize("make", [without_end, altered, with_sha1, with_a_short_key, too_long, lambda *_: b""])
def test_a_ciphertext_that_does_not_open_is_refused(vault: FakeVault, release: Release, make: Any) -> None:  # noqa: ANN401
    vault.ciphertext = make
    error = refused(release)
    assert (type(error), error.code) == (VerificationError, "skr-not-opened")


def test_a_ciphertext_for_another_key_does_not_open(vault: FakeVault, release: Release) -> None:
    other = EncryptionKey.generate(2048)
    vault.ciphertext = lambda _, content: wrapped({"n": other.jwk["n"], "e": other.jwk["e"]}, content)
    assert refused(release).code == "skr-not-opened"


OTHERS = {
    "rsa": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "p256": KEYS["p384"],
    "p384": KEYS["p256"],
    "p256k": KEYS["rsa"],
}


@pytest.mark.parametrize("kind", OTHERS)
def test_another_key_than_the_vault_states_is_refused(vault: FakeVault, release: Release, kind: str) -> None:
    vault.key = kind
    vault.ciphertext = lambda kek, _: wrapped(kek, material(OTHERS[kind]))
    error = refused(release)
    assert (type(error), error.code) == (VerificationError, "skr-public-key-mismatch")


@pytest.mark.parametrize("crv", ["P-384", "P-256K", "P-999"])
def test_a_key_on_another_curve_than_the_vault_states_is_refused(vault: FakeVault, release: Release, crv: str) -> None:
    vault.key = "p256"
    vault.payload = put("response.key.key.crv", crv)
    assert refused(release).code == "skr-public-key-mismatch"


def test_what_is_no_private_key_is_refused(vault: FakeVault, release: Release) -> None:
    vault.ciphertext = lambda kek, _: wrapped(kek, bytes(32))
    assert refused(release).code == "skr-public-key-mismatch"


def test_a_key_of_an_unknown_type_is_refused(vault: FakeVault, release: Release) -> None:
    vault.payload = put("response.key.key.kty", "AKP-HSM")
    error = refused(release)
    assert (type(error), error.code) == (UnsupportedError, "skr-key-type-unsupported")


# -- point 5: under which policy


@pytest.mark.parametrize("policy", [POLICY.replace(b'"y"', b'"z"'), b"{}", b"no policy"])
def test_another_release_policy_than_the_expected_one_is_refused(
    vault: FakeVault, release: Release, policy: bytes
) -> None:
    vault.policy = policy
    error = refused(release, policy=parse_skr(POLICY))
    assert (type(error), error.code) == (VerificationError, "skr-policy-mismatch")


def test_an_answer_without_the_expected_policy_is_refused(vault: FakeVault, release: Release) -> None:
    vault.payload = put("response.key.release_policy", ...)
    assert refused(release, policy=parse_skr(POLICY)).code == "skr-answer-mismatch"


# -- point 6: the key of the release


def test_a_released_key_is_overwritten_at_its_end(release: Release) -> None:
    key = release()
    view, content = key.material, key.export()
    key.close()
    assert view.tobytes() != content


# -- the Verifier's token is verified before it is sent on


def hour(name: str, hours: int) -> Callable[[Json], Json]:
    return lambda claims: put(name, claims[name] + hours * 3600)(claims)


def with_another_key(claims: Json) -> Json:
    claims["x-ms-runtime"]["keys"].append(claims["x-ms-runtime"]["keys"][0])
    return claims


def of_another_key(claims: Json) -> Json:
    claims["x-ms-runtime"]["keys"][0]["n"] = EncryptionKey.generate(2048).jwk["n"]
    return claims


def of_another_tee(claims: Json) -> Json:
    registers = {f"tdx_{name}": "00" * 48 for name in ("mrtd", "rtmr0", "rtmr1", "rtmr2", "rtmr3")}
    data = claims["x-ms-sevsnpvm-reportdata"]
    return {**claims, **registers, "tdx_report_data": data, "x-ms-attestation-type": "tdxvm"}


TOKENS: dict[str, tuple[Callable[[Json], Json], type[AttestError], str]] = {
    "another issuer": (put("iss", "https://other.example"), EndorsementError, "token-issuer-untrusted"),
    "an expired token": (put("exp", 1_000_000_000), VerificationError, "token-expired"),
    "a token of tomorrow": (hour("nbf", 24), VerificationError, "token-not-yet-valid"),
    "another TEE": (of_another_tee, BindingError, "skr-token-mismatch"),
    "other report data": (put("x-ms-sevsnpvm-reportdata", "00" * 64), BindingError, "skr-token-mismatch"),
    "another key": (of_another_key, BindingError, "skr-token-mismatch"),
    "two keys": (with_another_key, BindingError, "skr-token-mismatch"),
    "no keys": (put("x-ms-runtime", {}), BindingError, "skr-token-mismatch"),
}


@pytest.mark.parametrize("name", TOKENS)
def test_a_token_about_something_else_is_not_sent_on(vault: FakeVault, release: Release, name: str) -> None:
    vault.claims, kind, code = TOKENS[name]
    error = refused(release)
    assert (type(error), error.code) == (kind, code)
    assert all("/release" not in path for path, _ in vault.asked)


def test_a_token_by_another_key_is_not_sent_on(vault: FakeVault, release: Release) -> None:
    vault.verifier_key = OTHER_SIGNER
    error = refused(release)
    assert (type(error), error.code) == (SignatureError, "token-signature-invalid")
    assert all("/release" not in path for path, _ in vault.asked)


@pytest.mark.parametrize(
    "change",
    [
        put("issuer", "https://other.example"),
        put("jwks_uri", "https://other.example/certs"),
        put("jwks_uri", "http://localhost/certs"),
        put("jwks_uri", ...),
        put("jwks_uri", "/certs"),
    ],
)
def test_keys_are_those_that_the_verifier_publishes_at_its_own_address(
    vault: FakeVault,
    release: Release,
    change: Any,  # noqa: ANN401
) -> None:
    vault.discovery = change
    error = refused(release)
    assert (type(error), error.code) == (BindingError, "service-answer-invalid")


def test_a_key_set_that_cannot_be_read_is_refused(vault: FakeVault, release: Release) -> None:
    vault.jwks = put("keys", [])
    assert refused(release).code == "jwks-invalid"


# -- refusals, with the words of those who refuse


def problem(code: str, message: str, inner: str | None = None) -> bytes:
    error: Json = {"code": code, "message": message} | ({"innererror": {"code": inner}} if inner else {})
    return json.dumps({"error": error}).encode()


REFUSALS: dict[str, tuple[str, int, bytes, type[AttestError], str, str]] = {
    "access denied": (
        "release",
        403,
        problem("Forbidden", "no", "AccessDenied"),
        PolicyNotMetError,
        "skr-denied",
        "Forbidden: AccessDenied: no",
    ),
    "no such key": (
        "release",
        404,
        problem("KeyNotFound", "gone"),
        KeyUnknownError,
        "skr-key-unknown",
        "KeyNotFound: gone",
    ),
    "no access token": ("release", 401, b"", ReleaseRefusedError, "skr-unauthorized", "status 401 without a reason"),
    "a malformed request": (
        "release",
        400,
        problem("BadParameter", "x"),
        ReleaseRefusedError,
        "skr-refused",
        "BadParameter",
    ),
    "a failing vault": ("release", 500, b"<html>", ReleaseRefusedError, "skr-failed", "status 500"),
    "a refusing Verifier": (
        "SevSnpVm",
        400,
        problem("PolicyEvaluationError", "no \x1b[2J"),
        ReleaseRefusedError,
        "maa-refused",
        "PolicyEvaluationError: no",
    ),
    "a failing Verifier": ("SevSnpVm", 500, b"", ReleaseRefusedError, "maa-failed", "status 500"),
    "a vault that redirects": ("release", 307, b"", BindingError, "service-answer-invalid", "status 307"),
    "a Verifier that redirects": ("SevSnpVm", 302, b"", BindingError, "service-answer-invalid", "status 302"),
    "no JSON": ("release", 200, b"<html>", BindingError, "service-answer-invalid", "not JSON"),
    "no value": ("release", 200, b"{}", BindingError, "service-answer-invalid", "no value"),
    "a list": ("release", 200, b"[]", BindingError, "service-answer-invalid", "no object"),
    "no token": ("SevSnpVm", 200, b"{}", BindingError, "service-answer-invalid", "no token"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_says_who_refuses_and_why(vault: FakeVault, release: Release, name: str) -> None:
    place, status, content, kind, code, words = REFUSALS[name]
    vault.answer[place] = (status, {"Location": "https://other.example"}, content)
    error = refused(release)
    assert (type(error), error.code) == (kind, code)
    assert words in error.message
    assert error.message.isprintable()


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("skr-permission-missing", "the vault's operator grants it"),
        ("release-policy", "the key's policies"),
        ("policy-not-met", "the key's policies"),
        ("token-issuer-untrusted", "--maa"),
        ("skr-token-too-old", "the clocks"),
        ("skr-token-used", "repeat the command"),
        ("below-floor", "firmware"),
        ("via-not-allowed", "--via"),
        ("key-frozen", "ask the operator"),
        ("of-a-later-service", "the caller also needs the permission"),
    ],
)
def test_a_denial_has_the_hint_of_its_reason(vault: FakeVault, release: Release, reason: str, words: str) -> None:
    inner = {"code": "AccessDenied", "innererror": {"code": reason}}
    content = {"error": {"code": "Forbidden", "message": f"no [{reason}]", "innererror": inner}}
    vault.answer["release"] = (403, {}, json.dumps(content).encode())
    error = refused(release)
    assert (type(error), error.code) == (PolicyNotMetError, "skr-denied")
    assert words in str(error.hint)
    assert (words == "the caller also needs the permission") is ("also needs" in str(error.hint))


def test_every_reason_that_has_a_hint_is_a_documented_error_of_the_service() -> None:
    documented = Path("docs/errors-service.md").read_text() + Path("docs/errors.md").read_text()
    documented += Path("docs/errors-workload.md").read_text()
    assert [code for code in DENIAL_HINTS if f"`{code}`" not in documented] == []


def test_a_vault_that_stays_busy_is_unreachable(vault: FakeVault, release: Release) -> None:
    vault.answer["release"] = (429, {"Retry-After": "60"}, problem("Throttled", "slowly"))
    error = refused(release)
    assert (type(error), error.exit_code) == (ServiceUnreachableError, 5)


# -- what this client refuses by itself


@pytest.mark.parametrize("bearer", ["", "a b", "a\nb: c", "é", "x" * 20_000])
def test_an_access_token_that_is_no_header_is_refused_and_not_shown(release: Release, bearer: str) -> None:
    error = refused(release, bearer=lambda: bearer)
    assert (type(error), error.code) == (ConfigurationError, "skr-bearer-invalid")
    assert "a b" not in str(error)


def test_without_roots_there_is_no_client() -> None:
    with pytest.raises(ConfigurationError) as caught:
        SkrClient("https://verifier.example", roots=(), bearer=lambda: "")
    assert caught.value.code == "skr-roots-missing"


def test_a_verifier_is_reached_over_tls() -> None:
    with pytest.raises(ConfigurationError) as caught:
        SkrClient("http://verifier.example", roots=read_token_roots(pem(PKI.root)), bearer=lambda: "")
    assert caught.value.code == "maa-url-invalid"


@pytest.mark.parametrize(
    "address",
    [
        "http://vault.example/keys/a",
        "https://vault.example/secrets/a",
        "https://vault.example/keys/",
        "https://vault.example/keys/a_b",
        "https://vault.example/keys/a/b",
        "https://user@vault.example/keys/a",
        "https://vault.example/keys/a?x",
        "https://vault.example:99999/keys/a",
        "https://väult.example/keys/a",
        "https://vault.example/keys/a/../b",
    ],
)
def test_what_is_no_address_of_a_key_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        VaultKey.parse(address)
    assert caught.value.code == "skr-address-invalid"


def test_an_address_has_one_spelling() -> None:
    for text in ("HTTPS://Vault.Example:443/keys/Model/", "https://vault.example/keys/Model"):
        assert str(VaultKey.parse(text)) == "https://vault.example/keys/Model"


def guest_of(machine: FakeMachine) -> MachineSkrGuest:
    return MachineSkrGuest.of(machine.access)


def test_a_machine_without_a_tee_is_no_guest(tmp_path: Path) -> None:
    with pytest.raises(CollectionError) as caught:
        guest_of(plain_machine(tmp_path))
    assert caught.value.code == "tee-missing"


def test_a_vm_with_a_paravisor_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as caught:
        MachineSkrGuest.of(software_vm(tmp_path)[0].access)
    assert caught.value.code == "skr-tee-unsupported"


def test_a_report_without_the_hosts_certificates_is_not_sent(tmp_path: Path) -> None:
    machine = snp_machine(tmp_path)
    assert machine.tsm is not None
    answer = machine.tsm.answer
    machine.tsm.answer = lambda data, vmpl: {**answer(data, vmpl), "auxblob": b""}
    with pytest.raises(CollectionError) as caught:
        guest_of(machine).evidence(bytes(32))
    assert caught.value.code == "skr-certificates-missing"


def test_the_certificates_are_sent_leaf_first(tmp_path: Path) -> None:
    found = guest_of(snp_machine(tmp_path)).evidence(bytes(32))
    assert found.chain.count(b"BEGIN CERTIFICATE") == 3
    assert len(found.report) == 1184
