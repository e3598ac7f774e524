"""The file ``maa_file``: how machines get tokens with the claims of Microsoft Azure Attestation (MAA).

::

    issuer = "https://verifier.example"   # value of iss; clients must reach this service at this address
    key = "token-key.pem"                 # RSA private key that signs tokens; a path from the folder of this file
    certificates = "token-chain.pem"      # its certificate and those above it, the signer's own first
    policy = "machines.yaml"              # policy that evidence must meet to get a token
    token_seconds = 28800                 # lifetime of tokens, at most 8 hours
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from attest import Policy, load_policy
from attest.results import TokenKey, jwk_thumbprint, rsa_jwk
from kms.config.protocol_file import MAX_FILE_BYTES, Members, ProtocolFile
from kms.keys.wrapping.secret_files import PrivateFile

SETTING: Final = "maa_file"
MAX_CERTIFICATES: Final = 5
MAX_ISSUER_CHARACTERS: Final = 256
RSA_BITS: Final = range(2048, 8193)
"""Lengths of a modulus that readers of tokens accept."""
MAX_TOKEN_SECONDS: Final = 8 * 3600
_TOKEN_SECONDS: Final = range(30, MAX_TOKEN_SECONDS + 1)
_MEMBERS: Final = {"issuer", "key", "certificates", "policy", "token_seconds"}
_PUBLIC: Final = ("certificates", "policy")
_UNREADABLE: Final = (ValueError, TypeError, UnsupportedAlgorithm)
_FILE: Final = partial(ProtocolFile, setting=SETTING, code="maa-file-invalid", page="docs/maa.md")


@dataclass(frozen=True, slots=True, kw_only=True)
class MaaSettings:
    """The content of the file.

    Attributes:
        key: signs tokens.
        chain: certificate of the key, and each the issuer of the one before.
        policy: guards the tokens.
        policy_text: the policy as its author wrote it.
    """

    issuer: str
    key: rsa.RSAPrivateKey = field(repr=False)
    chain: tuple[x509.Certificate, ...]
    policy: Policy
    policy_text: bytes
    token_seconds: int

    @property
    def public_key(self) -> TokenKey:
        """The public half of the key that signs tokens; its name is the thumbprint."""
        jwk = rsa_jwk(self.key.public_key())
        return TokenKey(kid=jwk_thumbprint(jwk), jwk=jwk)


def read_maa_settings(path: Path) -> MaaSettings:
    """Read the file, and the key, the certificates and the policy that it names.

    Raises:
        ConfigurationError: ``maa-file-invalid``, ``maa-key-unusable``, ``maa-key-exposed`` or ``file-unreadable``; also
            of the policy.
    """
    toml = _FILE(path=path)
    members = toml.members()
    toml.require_known(members, _MEMBERS)
    key = _read_key(toml, _file(toml, members, "key"))
    policy = _file(toml, members, "policy")
    text = toml.content(policy, "policy")
    return MaaSettings(
        issuer=_issuer(toml, members.get("issuer")),
        key=key,
        chain=_read_chain(toml, _file(toml, members, "certificates"), key),
        policy=load_policy(text, name=str(policy)),
        policy_text=text,
        token_seconds=toml.number(members, "token_seconds", _TOKEN_SECONDS, MAX_TOKEN_SECONDS),
    )


def named_by_maa(path: Path) -> tuple[Path, ...]:
    """Return the public files that the file names; they are not read.

    Raises:
        ConfigurationError: ``maa-file-invalid`` or ``file-unreadable``.
    """
    toml = _FILE(path=path)
    named = (toml.members().get(name) for name in _PUBLIC)
    return tuple(toml.beside(one) for one in named if isinstance(one, str))


def _issuer(toml: ProtocolFile, value: object) -> str:
    """Return the issuer: an address without a path, of which clients ask the key set."""
    text = value if isinstance(value, str) else ""
    host = text.removeprefix("https://")
    if host in {"", text} or not text.isascii() or not text.isprintable() or set(host) & set("/?# @"):
        toml.refuse("issuer: expected https:// and the name of a host, without a path")
    if len(text) > MAX_ISSUER_CHARACTERS:
        toml.refuse(f"issuer: more than {MAX_ISSUER_CHARACTERS} characters")
    return text


def _file(toml: ProtocolFile, members: Members, name: str) -> Path:
    value = members.get(name)
    if not isinstance(value, str) or not value:
        toml.refuse(f"{name}: expected the path of a file")
    return toml.beside(value)


def _read_key(toml: ProtocolFile, file: Path) -> rsa.RSAPrivateKey:
    """Read a key file that only its owner, the user of this process, can read."""
    private = PrivateFile(
        path=file,
        noun="file with the key for tokens",
        codes=("maa-key-unusable", "maa-key-unusable", "maa-key-exposed"),
        field=SETTING,
        hint=f"{toml.path.name} names it as key; its owner must be the user that runs the service, its mode 0600",
        exposed="if another user may have read it, create a new key and certificate",
    )
    content = private.read(MAX_FILE_BYTES)
    try:
        key = load_pem_private_key(content, password=None)
    except _UNREADABLE:
        key = None  # the error repeats nothing of the input
    if not isinstance(key, rsa.RSAPrivateKey) or key.key_size not in RSA_BITS:
        toml.refuse(f"key: expected an RSA private key of {RSA_BITS.start} to {RSA_BITS.stop - 1} bits, in PEM")
    return key


def _read_chain(toml: ProtocolFile, file: Path, key: rsa.RSAPrivateKey) -> tuple[x509.Certificate, ...]:
    content = toml.content(file, "certificates", limit=MAX_FILE_BYTES)
    try:
        chain = tuple(x509.load_pem_x509_certificates(content))
        for one, issuer in pairwise(chain):
            one.verify_directly_issued_by(issuer)
        matches = bool(chain) and chain[0].public_key() == key.public_key()
    except (*_UNREADABLE, InvalidSignature):
        toml.refuse(f"certificates: {file}: expected a chain in PEM, each issued by the next")
    if not matches or len(chain) > MAX_CERTIFICATES:
        toml.refuse(f"certificates: {file}: expected 1 to {MAX_CERTIFICATES}, that of the key first")
    return chain
