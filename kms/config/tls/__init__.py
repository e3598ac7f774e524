"""TLS of the service: certificate and key from two files, which can be reloaded while it runs.

No secret relies on the channel: keys are sealed to the workload, and responses are signed. TLS hides from the network
which keys a workload requests, and authenticates the service before anything is sent.
"""

from __future__ import annotations

from kms.config.tls.material import MIN_RSA_BITS, TlsMaterial, parse_certificates, read_material
from kms.config.tls.server_context import ServerTls, TlsVersion, server_context

__all__ = [
    "MIN_RSA_BITS",
    "ServerTls",
    "TlsMaterial",
    "TlsVersion",
    "parse_certificates",
    "read_material",
    "server_context",
]
