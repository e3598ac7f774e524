"""Azure's SDKs for JavaScript and Go against a vault: make a key, release it, and how refusals arrive."""

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_der_private_key

from tests.compat.conftest import Step, program_of
from tests.compat.skr.conftest import Vault, run
from tests.kms.skr.vault import OAEP, RELEASE_POLICY, Document, from_b64url

pytestmark = pytest.mark.loopback
JAVASCRIPT = "@azure/keyvault-keys 4.10.2"
GO = "azkeys 1.5.0 (Go)"
ALGORITHMS = [None, *OAEP]


def settings_of(vault: Vault) -> Document:
    return {
        "vault": vault.url,
        "ca": str(vault.ca),
        "token": vault.bearer(),
        "policy": json.dumps(RELEASE_POLICY),
        "target": vault.token(),
        "expired": vault.token({"exp": 1}),
        "algorithms": ALGORITHMS,
    }


def require_released(vault: Vault, made: Document, released: list[Document]) -> None:
    """Verify each answer, and compare the key with the public half that was shown when it was made."""
    modulus = int.from_bytes(base64.b64decode(made["n"]), "big")
    assert len(released) == 2 * len(ALGORITHMS)
    for index, one in enumerate(released):
        payload, material = vault.opened(one["value"], ALGORITHMS[index // 2] or "CKM_RSA_AES_KEY_WRAP")
        assert payload["request"]["nonce"] == "a nonce"
        assert payload["request"]["kid"] == (made["id"] if index % 2 else made["id"].rpartition("/")[0])
        shown = payload["response"]["key"]
        assert json.loads(from_b64url(shown["release_policy"]["data"])) == RELEASE_POLICY
        key = load_der_private_key(material, None)
        assert isinstance(key, rsa.RSAPrivateKey)
        assert key.public_key().public_numbers().n == modulus
        assert int.from_bytes(from_b64url(shown["key"]["n"]), "big") == modulus


def require_refused(found: dict[str, Any]) -> None:
    assert (found["refused"]["status"], found["missing"]["status"]) == (403, 404)
    assert "token-expired" in found["refused"]["text"]
    assert "key-unknown" in found["missing"]["text"]


def test_a_program_in_javascript_gets_its_key(vault: Vault, step: Step) -> None:
    step(JAVASCRIPT, "create, release with each enc, with and without a version; 403 and 404 with our code")
    client = program_of("ATTEST_AZURE_JS")
    found = run([shutil.which("node") or "node", client], settings_of(vault), NODE_EXTRA_CA_CERTS=str(vault.ca))
    assert found["asked"][0] == [[f"{vault.resource}/.default"], "tenant-1"]
    require_released(vault, found["made"]["value"], found["released"])
    require_refused(found)


def test_a_program_in_go_gets_its_key(vault: Vault, step: Step) -> None:
    step(GO, "create, release with each enc, with and without a version; 403 and 404 with our code")
    found = run([Path(program_of("ATTEST_AZKEYS"))], settings_of(vault))
    assert found["scopes"] == [f"{vault.resource}/.default"]
    require_released(vault, found["made"], found["released"])
    require_refused(found)
