"""A document of reference values with the bundle of a workflow that built it, and the trusted root: `python -m`."""

import hashlib
import json
import sys
from pathlib import Path

from tests.provenance.sigstore_made import MadeSigstore, statement_1

DOCUMENT = {
    "schema": "attest.references/1",
    "name": "kata-images",
    "version": 3,
    "origin": "image pipeline, build 1234",
    "issued": "2026-01-01T00:00:00Z",
    "expires": {"unchecked": "an example"},
    "values": {"kata-3.9": {"kind": "snp-measurement", "values": ["01" * 48]}},
}


def write(name: str, identity: str, issuer: str) -> None:
    """Write NAME.json, NAME.sigstore.json and trusted_root.json, as built under an identity."""
    made = MadeSigstore()
    document = json.dumps(DOCUMENT).encode()
    subject = {"name": f"{name}.json", "digest": {"sha256": hashlib.sha256(document).hexdigest()}}
    certificate = made.certificate(identity=identity, issuer=issuer)
    Path(f"{name}.json").write_bytes(document)
    bundle = made.bundle(statement_1(subject=[subject]), certificate=certificate)
    Path(f"{name}.sigstore.json").write_text(json.dumps(bundle))
    Path("trusted_root.json").write_text(json.dumps(made.trusted_root()))


if __name__ == "__main__":
    write(*sys.argv[1:])
