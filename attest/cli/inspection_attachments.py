"""Plain data that accompanies a CPU's evidence, unverified, for ``attest inspect``."""

from __future__ import annotations

from attest.encoding import JsonValue, rfc3339_text
from attest.endorsements.x509 import parse_certificate
from attest.evidence.attachment.certificate import carried_quote
from attest.evidence.attachment.committed_data import parse_committed_data
from attest.evidence.attachment.uvm_endorsement import parse_uvm_endorsement

_Facts = dict[str, JsonValue]


def attested_certificate(value: bytes) -> _Facts:
    """Describe a certificate that carries a quote; errors as ``carried_quote``."""
    certificate = parse_certificate(value)
    carried = carried_quote(certificate)
    return {
        "certificate": {
            "subject": certificate.name,
            "issuer": certificate.issuer_common_name or "",
            "not_before": rfc3339_text(certificate.not_before),
            "not_after": rfc3339_text(certificate.not_after),
            "spki_sha256": certificate.spki_sha256.hex(),
            "form": carried.form,
            "report_data": carried.report_data.hex(),
            "claims": dict(carried.claims),
        }
    }


def committed_data(value: bytes) -> _Facts:
    """Describe data beside the evidence by the rule of its commitment; errors as ``parse_committed_data``."""
    found = parse_committed_data(value)
    return {"committed_data": {rule: [piece.hex() for piece in pieces] for rule, pieces in found.items()}}


def uvm_endorsement(value: bytes) -> _Facts:
    """Describe the endorsement of a utility VM; errors as ``parse_uvm_endorsement``."""
    found = parse_uvm_endorsement(value)
    return {
        "uvm_endorsement": {
            "issuer": found.issuer,
            "feed": found.feed,
            "svn": found.svn,
            "measurement": found.measurement.hex(),
            "algorithm": found.algorithm,
            "chain": [certificate.name for certificate in found.chain],
        }
    }
