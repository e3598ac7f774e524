"""TLS by file: what is taken, what is refused, and what a client sees."""

import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import threading
import time
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

from attest.clock import system_clock
from attest.errors import ConfigurationError
from kms.config.listener_tls import open_tls, weigh_channel
from kms.config.settings import Settings, load_settings
from kms.config.settings_file import prepare_directory
from kms.config.tls import MIN_RSA_BITS, ServerTls, read_material
from kms.operations.services import initialise
from tests.kms.process import ServedProcess
from tests.kms.support import FakeRandom, settings_for
from tests.kms.tls import Files, authority, issued, self_made, trusting, written

AT = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
P256 = ec.generate_private_key(ec.SECP256R1())


def refusal(files: Files, *, at: datetime = AT) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        read_material(files.certificate, files.key, at=at)
    return caught.value


def spki_sha256(files: Files) -> bytes:
    public = x509.load_pem_x509_certificate(files.certificate.read_bytes()).public_key()
    return sha256(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()


# -- files


def test_a_certificate_and_its_key_are_read(tmp_path: Path) -> None:
    files = issued(authority(tmp_path, at=AT), at=AT)
    material = read_material(files.certificate, files.key, at=AT)
    assert material.spki_sha256 == spki_sha256(files)
    assert "PRIVATE" not in repr(material)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_mc_34_a_key_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    files = issued(authority(tmp_path, at=AT), at=AT)
    files.key.chmod(mode)
    error = refusal(files)
    assert (error.code, error.got) == ("tls-key-exposed", f"{mode:04o}")
    files.key.chmod(0o400)
    read_material(files.certificate, files.key, at=AT)


def test_a_key_that_is_no_file_of_ours_is_refused(tmp_path: Path) -> None:
    files = issued(authority(tmp_path, at=AT), at=AT)
    link = tmp_path / "link"
    link.symlink_to(files.key)
    assert refusal(Files(certificate=files.certificate, key=link)).code == "tls-key-unusable"
    assert refusal(Files(certificate=files.certificate, key=tmp_path)).code == "tls-key-unusable"
    assert refusal(Files(certificate=files.certificate, key=tmp_path / "absent")).code == "tls-key-unusable"
    if os.geteuid() == 0:
        os.chown(files.key, 65534, 65534)
        assert refusal(files).code == "tls-key-unusable"


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    ca = authority(tmp_path, at=AT)
    one, other = issued(ca, "one", at=AT), issued(ca, "other", at=AT)
    error = refusal(Files(certificate=one.certificate, key=other.key))
    assert error.code == "tls-key-mismatch"
    assert spki_sha256(one).hex() in str(error.expected)


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_what_is_no_key_is_refused_without_showing_it(tmp_path: Path, content: bytes) -> None:
    files = issued(authority(tmp_path, at=AT), at=AT)
    files.key.write_bytes(content)
    error = refusal(files)
    assert error.code == "tls-key-invalid"
    assert error.__cause__ is None
    assert error.__context__ is None


def test_an_encrypted_key_is_refused(tmp_path: Path) -> None:
    files = issued(authority(tmp_path, at=AT), at=AT)
    key = load_pem_private_key(files.key.read_bytes(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))
    assert refusal(files).code == "tls-key-invalid"


def test_a_certificate_counts_from_its_first_to_its_last_moment(tmp_path: Path) -> None:
    files = written(tmp_path, P256, self_made(P256, at=AT))
    for moment in (AT, AT + timedelta(days=1)):
        read_material(files.certificate, files.key, at=moment)
    assert refusal(files, at=AT - timedelta(seconds=1)).code == "tls-certificate-not-yet-valid"
    assert refusal(files, at=AT + timedelta(days=1, seconds=1)).code == "tls-certificate-expired"


def test_a_certificate_that_ends_soon_is_warned_of(tmp_path: Path) -> None:
    files = issued(authority(tmp_path, at=AT), at=AT, days=21)
    material = read_material(files.certificate, files.key, at=AT)
    assert list(material.warnings(at=AT)) == []
    (warning,) = material.warnings(at=AT + timedelta(seconds=1))
    assert "2026-06-22" in warning


@pytest.mark.parametrize("bits", [1024, MIN_RSA_BITS])
def test_a_short_rsa_key_is_refused(tmp_path: Path, bits: int) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=bits)
    files = written(tmp_path, key, self_made(key, at=AT))
    if bits < MIN_RSA_BITS:
        assert refusal(files).code == "tls-certificate-weak"
    else:
        read_material(files.certificate, files.key, at=AT)


def test_a_curve_that_is_not_among_the_known_ones_is_refused(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256K1())
    assert refusal(written(tmp_path, key, self_made(key, at=AT))).code == "tls-certificate-weak"
    good = ed25519.Ed25519PrivateKey.generate()
    files = written(tmp_path, good, self_made(good, at=AT))
    read_material(files.certificate, files.key, at=AT)


@pytest.mark.parametrize(
    "more",
    [{"names": False}, {"ca": True}, {"usage": ExtendedKeyUsageOID.CLIENT_AUTH}],
    ids=["no-name", "ca", "client"],
)
def test_a_certificate_that_is_none_of_a_server_is_refused(tmp_path: Path, more: dict[str, object]) -> None:
    certificate = self_made(P256, at=AT, **more)  # type: ignore[arg-type]  # one of its own arguments
    assert refusal(written(tmp_path, P256, certificate)).code == "tls-certificate-not-for-servers"


def test_what_is_no_certificate_is_refused(tmp_path: Path) -> None:
    files = issued(authority(tmp_path, at=AT), at=AT)
    whole = files.certificate.read_bytes()
    for content in (b"", b"nonsense", whole[:200], whole * 11):
        files.certificate.write_bytes(content)
        assert refusal(files).code == "tls-certificate-invalid"
    files.certificate.write_bytes(b" " * 300_000)
    assert refusal(files).code == "tls-certificate-unreadable"
    files.certificate.unlink()
    assert refusal(files).code == "tls-certificate-unreadable"


# -- settings


def test_a_certificate_without_its_key_is_no_setting(tmp_path: Path) -> None:
    for name in ("tls_certificate_file", "tls_key_file"):
        config = tmp_path / f"{name}.toml"
        config.write_text(f'origin = "a"\ndatabase = "d"\nkek_file = "k"\n{name} = "x"\n')
        with pytest.raises(ConfigurationError) as caught:
            load_settings(flags={}, environ={}, config=config)
        assert "must be set together" in caught.value.message


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "kms.example"])  # noqa: S104  nothing listens
def test_mc_42_listening_beyond_this_machine_without_tls_is_told_loudly_or_refused(tmp_path: Path, host: str) -> None:
    said: list[str] = []
    settings = settings_for(tmp_path, host=host)
    weigh_channel(settings, report=said.append)
    assert len(said) == 1
    assert said[0].startswith("WARNING")
    with pytest.raises(ConfigurationError) as caught:
        weigh_channel(settings_for(tmp_path, host=host, plain_http="refuse"), report=said.append)
    assert caught.value.code == "plain-http-refused"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_the_loopback_address_needs_no_tls(tmp_path: Path, host: str) -> None:
    said: list[str] = []
    settings = settings_for(tmp_path, host=host, plain_http="refuse")
    weigh_channel(settings, report=said.append)
    assert open_tls(settings, at=AT, report=said.append) is None
    assert said == []


def test_with_tls_no_address_is_warned_of(tmp_path: Path) -> None:
    said: list[str] = []
    files = issued(authority(tmp_path, at=AT), at=AT)
    named = {"tls_certificate_file": files.certificate, "tls_key_file": files.key}
    settings = settings_for(tmp_path, host="192.0.2.1", plain_http="refuse", **named)
    weigh_channel(settings, report=said.append)
    assert open_tls(settings, at=AT, report=said.append) is not None
    assert said == []


# -- on the wire


def _served(tls: ServerTls, client: ssl.SSLContext, *, host: str = "kms.test") -> tuple[bytes, str | None]:
    """One handshake and one byte back: the certificate that the client saw, and the version."""
    ours, theirs = socket.socketpair()
    errors: list[BaseException] = []

    def serve() -> None:
        try:
            with tls.context.wrap_socket(theirs, server_side=True) as connection:
                connection.sendall(connection.recv(1))
        except (OSError, ValueError) as exc:
            errors.append(exc)
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(ours, server_hostname=host) as connection:
            connection.sendall(b"?")
            if not connection.recv(1):
                raise ConnectionError
            return connection.getpeercert(binary_form=True) or b"", connection.version()
    finally:
        ours.close()
        thread.join()


def server(files: Files, **more: object) -> ServerTls:
    options: dict[str, object] = {"minimum": "1.3", "at": system_clock()} | more
    return ServerTls(files.certificate, files.key, **options)  # type: ignore[arg-type]


def test_tls_1_3_is_spoken_and_1_2_where_the_setting_says_so(tmp_path: Path) -> None:
    ca = authority(tmp_path)
    files = issued(ca)
    assert _served(server(files), trusting(ca))[1] == "TLSv1.3"
    old = trusting(ca)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, OSError)):
        _served(server(files), old)
    assert _served(server(files, minimum="1.2"), old)[1] == "TLSv1.2"


def test_a_new_certificate_is_shown_from_the_next_connection_on(tmp_path: Path) -> None:
    ca = authority(tmp_path)
    files, tls = issued(ca), None
    tls = server(files)
    first = _served(tls, trusting(ca))[0]
    spki = tls.material.spki_sha256
    other = issued(ca, "other")
    files.certificate.write_bytes(other.certificate.read_bytes())
    files.key.write_bytes(other.key.read_bytes())
    assert _served(tls, trusting(ca))[0] == first
    tls.reload(at=system_clock())
    assert _served(tls, trusting(ca))[0] != first
    assert tls.material.spki_sha256 != spki


def test_what_cannot_be_used_leaves_the_certificate_of_before(tmp_path: Path) -> None:
    ca = authority(tmp_path)
    files = issued(ca)
    tls = server(files)
    first = _served(tls, trusting(ca))[0]
    files.key.chmod(0o644)
    with pytest.raises(ConfigurationError):
        tls.reload(at=system_clock())
    assert _served(tls, trusting(ca))[0] == first


def test_a_client_that_has_to_show_a_certificate_gets_nowhere_without(tmp_path: Path) -> None:
    ca = authority(tmp_path)
    tls = server(issued(ca), client_ca=(ca / "ca.pem").read_bytes())
    with pytest.raises((ssl.SSLError, OSError)):
        _served(tls, trusting(ca))
    alice, client = issued(ca, "alice", client=True), trusting(ca)
    client.load_cert_chain(alice.certificate, alice.key)
    assert _served(tls, client)[1] == "TLSv1.3"
    # A server's certificate of the same authority is no client's.
    wrong, bob = trusting(ca), issued(ca, "bob")
    wrong.load_cert_chain(bob.certificate, bob.key)
    with pytest.raises((ssl.SSLError, OSError)):
        _served(tls, wrong)


@pytest.mark.loopback
def test_a_served_process_speaks_https_and_takes_another_certificate_without_dropping_connections(
    tmp_path: Path,
) -> None:
    ca = authority(tmp_path)
    files = issued(ca)
    config = service(tmp_path, files)
    served = ServedProcess.start(config)
    try:
        kept = http.client.HTTPSConnection("127.0.0.1", served.port, timeout=60, context=trusting(ca))
        before = _peer(kept)
        other = issued(ca, "other")
        files.certificate.write_bytes(other.certificate.read_bytes())
        files.key.write_bytes(other.key.read_bytes())
        served.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 60
        while (
            time.monotonic() < deadline and "certificate was reloaded" not in (config.parent / "serve.log").read_text()
        ):
            time.sleep(0.05)
        assert _peer(kept) == before  # the same connection goes on
        fresh = http.client.HTTPSConnection("127.0.0.1", served.port, timeout=60, context=trusting(ca))
        assert _peer(fresh) != before
        for connection in (kept, fresh):
            connection.close()
    finally:
        assert served.terminate() == 0


def _peer(connection: http.client.HTTPSConnection) -> bytes:
    connection.request("GET", "/healthz")
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["status"]) == (200, "ok")
    seen: bytes | None = connection.sock.getpeercert(binary_form=True)
    assert seen
    return seen


def service(folder: Path, files: Files, **more: str) -> Path:
    """A service's directory with these TLS files in its settings."""
    config = prepare_directory(folder / "svc", origin="kms.test/tls", allow_simulated=True)
    with config.open("a", encoding="utf-8") as file:
        file.write(f'tls_certificate_file = "{files.certificate}"\ntls_key_file = "{files.key}"\n')
        file.writelines(f"{name} = {value}\n" for name, value in more.items())
    settings: Settings = load_settings(flags={}, environ={}, config=config).settings
    initialise(settings, clock=system_clock, random=FakeRandom("tls"))
    return config


# -- no authority of its own


def test_mc_29_the_service_signs_no_certificate_so_no_seed_leads_to_an_authoritys_key() -> None:
    root = Path(__file__).resolve().parents[2]
    sources = [
        path for package in ("attest", "kms", "rag_demo", "tests/kms") for path in (root / package).rglob("*.py")
    ]
    signing = {str(path.relative_to(root)) for path in sources if "x509.CertificateBuilder(" in path.read_text("utf-8")}
    assert "tests/kms/tls.py" in signing
    assert {path for path in signing if not path.startswith("tests/")} == set()


# -- the documented command


def test_the_documented_command_makes_a_certificate_that_the_service_takes(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/service-identity.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"```sh\n(.*openssl req .*)\n```", page)
    subprocess.run(["sh", "-eu", "-c", command], cwd=tmp_path, check=True, capture_output=True)
    files = Files(certificate=tmp_path / "tls.pem", key=tmp_path / "tls.key")
    client = ssl.create_default_context(cafile=str(files.certificate))
    assert _served(server(files), client, host="localhost")[1] == "TLSv1.3"
