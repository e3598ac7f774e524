"""What a program of a page has from the text around it, by the names that comments use."""

import json
import os
import secrets
import shutil
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path

import httpx
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import attest.fetch
from attest import load_policy
from attest.clock import system_clock
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.fetch import KdsClient
from attest.release import VerifierKey
from attest.release.client import KeyReleaseClient
from attest.release.tlog import WitnessKey
from attest_simulator.machines import SimulatedMachine
from rag_demo.enclave.interfaces import IndexedPassage
from tests.conftest import REPOSITORY
from tests.documentation.blocks import blocks_of
from tests.rag_demo.documents.samples import pdf
from tests.rag_demo.hashing import HashingEmbedder
from tests.rag_demo.store.support import document as stored_document

Names = Mapping[str, object]


def a_client() -> Names:
    """Return a client of the running service, and what it and a workload know."""
    http = httpx.Client(base_url=os.environ["ATTEST_KMS_URL"])
    service = VerifierKey.parse(os.environ["ATTEST_KMS_KEY"])
    policy = load_policy(Path("policy.yaml").read_bytes())
    return {
        "attester": SimulatedMachine.of("snp"),
        "client": KeyReleaseClient(http, service=service),
        "digest": policy.digest,
        "http": http,
        "key": service,
        "nonce": bytes(32),
        "policy": policy,
        "service": service,
    }


def a_policy_and_evidence_in_the_form_of_Trustee() -> Names:  # noqa: N802  as the page writes it
    """Return an attestation policy, evidence for it and its reference values."""
    text = b"""package policy
import rego.v1
default executables := 33
executables := 3 if input.snp.measurement in query_reference_value("snp_launch_measurement")
trust_claims := {"executables": executables}
"""
    evidence = {"snp": {"measurement": "ab" * 48}}
    return {"text": text, "evidence": evidence, "reference_values": {"snp_launch_measurement": ["ab" * 48]}}


def what_a_client_expects() -> Names:
    return {
        "TrustAnchors": TrustAnchors,
        "identity": VerifierKey.parse(os.environ["ATTEST_KMS_KEY"]),
        "now": system_clock,
        "pool": Endorsements(),
        "token_bytes": os.urandom,
    }


def keys_of_two_witnesses() -> Names:
    """Return them as a policy of a client names them."""
    keys = [Ed25519PrivateKey.generate().public_key().public_bytes_raw() for _ in range(2)]
    first, second = (WitnessKey(name=f"witness.example/w{at}", public=key).text for at, key in enumerate(keys))
    return {"first": first, "second": second}


def a_policy_of_Azure() -> Names:  # noqa: N802  as the page says
    claims = [{"claim": "x-ms-isolation-tee.x-ms-attestation-type", "equals": "sevsnpvm"}]
    document = {"version": "1.0.0", "anyOf": [{"authority": "https://maa.example", "allOf": claims}]}
    return {"data": json.dumps(document).encode()}


def a_document() -> Names:
    return {"embedder": HashingEmbedder(), "upload": pdf([["A page of a report."]])}


def an_encrypted_store() -> Names:
    """Return what a store is opened, filled and asked with; the model is that of the page."""
    vector = np.ones(384, dtype=np.float32) / np.float32(384**0.5)
    passage = IndexedPassage(page=1, ordinal=0, text="a passage")
    return {
        "collection": bytes(32),
        "document": stored_document("a document"),
        "key": secrets.token_bytes(32),
        "parts": iter([([passage], vector.reshape(1, 384))]),
        "path": Path("documents.db"),
        "question": "which passage?",
        "vector": vector,
    }


def an_anchor_file() -> Names:
    (example,) = (block.text for block in blocks_of(REPOSITORY / "docs/trust-anchors.md") if block.language == "toml")
    return {"text": example.replace('remove = ["ARK-Milan"]', 'remove = ["ARK-Turin"]').encode()}


def a_sealed_model() -> Names:
    """Return the keys of a model whose folder is there and was not sealed yet."""
    shutil.rmtree("my-model.sealed")
    return {
        "buffer": memoryview(bytearray(4)),
        "key": Path("model.key").read_bytes(),
        "offset": 0,
        "owner_pem": Path("owner.pem").read_bytes(),
        "owner_pub": Path("owner.pub").read_bytes(),
    }


def evidence_without_endorsements() -> Names:
    """Return it, with the clock and the keys of a bundle; a client of AMD asks the simulated service."""
    attest.fetch.KdsClient = partial(KdsClient, base_url=os.environ["KDS"])  # type: ignore[misc,assignment]
    private_key = Ed25519PrivateKey.generate()
    return {
        "clock": system_clock,
        "directory": Path("cache"),
        "evidence": attest.read_evidence([("report.bin", Path("report.bin").read_bytes())]).evidence,
        "now": system_clock(),
        "private_key": private_key,
        "public_key": private_key.public_key(),
        "secrets": secrets,
        "timedelta": timedelta,
    }
