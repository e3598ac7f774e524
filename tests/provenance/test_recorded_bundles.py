"""Recorded bundles of the public instance of Sigstore: their certificates, signatures and log entries hold."""

import json
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

import pytest

from attest.errors import AttestError
from attest.provenance import verify_provenance
from tests.provenance.sigstore_made import Json, changed

ISSUER = "https://token.actions.githubusercontent.com"
PUBLISH = "https://github.com/tinfoilsh/{}/.github/workflows/tinfoil-release-publish.yml@refs/tags/{}"
RECORDED = {
    "tinfoil-router": PUBLISH.format("confidential-model-router", "v0.0.110"),
    "tinfoil-direct": PUBLISH.format("confidential-gemma4-31b", "v0.0.18"),
}


def public_root() -> bytes:
    """Return the trusted root that the library brings."""
    store = files("sigstore") / "_store" / quote("https://tuf-repo-cdn.sigstore.dev", safe="")
    return (store / "trusted_root.json").read_bytes()


def bundle_in(document: object) -> Json:
    """Return the bundle in a provider's answer."""
    if isinstance(document, dict) and "verificationMaterial" in document:
        return document
    inner = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    return next((found for one in inner if (found := bundle_in(one))), {})


def refusal(bundle: Json, *, identity: str, issuer: str = ISSUER) -> AttestError:
    data = json.dumps(bundle).encode()
    with pytest.raises(AttestError) as raised:
        verify_provenance(data, subject=b"\0" * 32, trusted_root=public_root(), identity=identity, issuer=issuer)
    return raised.value


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_bundle_holds_and_is_refused_for_its_predicate_alone(vectors_dir: Path, name: str) -> None:
    bundle = bundle_in(json.loads((vectors_dir / "providers" / name / "code-attestation.json").read_bytes()))
    identity = RECORDED[name]
    unsupported = refusal(bundle, identity=identity)
    assert (unsupported.code, unsupported.field) == ("provenance-unsupported", "predicateType")
    assert refusal(bundle, identity=identity.replace("tinfoilsh", "other")).code == "provenance-identity-mismatch"
    assert refusal(bundle, identity=identity, issuer="https://other.invalid").code == "provenance-issuer-mismatch"
    index = int(bundle["verificationMaterial"]["tlogEntries"][0]["logIndex"])
    moved = changed(bundle, "verificationMaterial.tlogEntries.0.logIndex", str(index + 1))
    assert refusal(moved, identity=identity).code == "provenance-not-verified"
