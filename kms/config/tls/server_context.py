"""TLS context of the server: negotiation, and replacement of the certificate while connections continue."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Literal

from kms.config.tls.material import TlsMaterial, read_material
from kms.domain.secret import EXPORT

TlsVersion = Literal["1.2", "1.3"]
_MINIMUM = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_TLS_1_2_SUITES = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Cipher suites of TLS 1.2, all with forward secrecy and AEAD, which all suites of TLS 1.3 have."""


class ServerTls:
    """TLS with a certificate that can be replaced while the service runs; existing connections keep the old one.

    ``client_ca`` has the CA certificates of clients, in PEM; with it the handshake requires a client certificate.

    Raises:
        ConfigurationError: as ``read_material``.
    """

    def __init__(
        self,
        certificate_file: Path,
        key_file: Path,
        *,
        minimum: TlsVersion,
        at: datetime,
        client_ca: bytes | None = None,
    ) -> None:
        """Read both files, and create the contexts."""
        self._files = (certificate_file, key_file)
        self._minimum: TlsVersion = minimum
        self._client_ca = client_ca
        self._lock = threading.Lock()
        self._material = read_material(certificate_file, key_file, at=at)
        self._current = server_context(self._material, minimum=minimum, client_ca=client_ca)
        self.context = server_context(self._material, minimum=minimum, client_ca=client_ca)
        """The context of the listening server; each handshake uses the present context throughout."""
        self.context.sni_callback = self._hand_over

    @property
    def material(self) -> TlsMaterial:
        """Certificate and key of new connections."""
        with self._lock:
            return self._material

    def reload(self, *, at: datetime) -> TlsMaterial:
        """Read both files again. If they are invalid, the previous ones stay in use.

        Raises:
            ConfigurationError: as ``read_material``.
        """
        material = read_material(*self._files, at=at)
        context = server_context(material, minimum=self._minimum, client_ca=self._client_ca)
        with self._lock:
            self._material, self._current = material, context
        return material

    def _hand_over(self, connection: ssl.SSLObject, name: str | None, listening: ssl.SSLContext) -> None:
        del name, listening  # all clients get the same certificate, regardless of SNI
        with self._lock:
            connection.context = self._current


def server_context(material: TlsMaterial, *, minimum: TlsVersion, client_ca: bytes | None = None) -> ssl.SSLContext:
    """Return the TLS context of a server.

    Sessions are not resumed: each connection uses the certificate of its time, and no ticket key outlives a connection.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _MINIMUM[minimum]
    context.set_ciphers(_TLS_1_2_SUITES)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    if client_ca is not None:
        context.load_verify_locations(cadata=client_ca.decode("ascii"))
        context.verify_mode = ssl.CERT_REQUIRED
    with_key = partial(_with_bytes, load=context.load_cert_chain)
    material.key_pem.lend(EXPORT, lambda key: with_key(material.pem, b"\n", key))
    return context


def _with_bytes(*content: bytes | memoryview, load: Callable[[str], None]) -> None:
    """Pass bytes to a function that reads a file, so that it reads exactly the bytes that were checked.

    The file has no name and exists only in memory.
    """
    descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.writelines(content)
        load(f"/proc/self/fd/{descriptor}")
    finally:
        os.ftruncate(descriptor, 0)
        os.close(descriptor)
