"""AMD SEV-SNP: the attestation report, its certificates, and the procedure that verifies them."""

from __future__ import annotations
