"""The key of a model, from a file, a descriptor or a service; and the keys that sign models. Never from a flag."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from attest.cli.option_values import hex_of
from attest.cli.options import Network, network_options
from attest.cli.service_options import ServiceOptions, service_options
from attest.cli.session_options import path_text
from attest.terminal.display import Command, Display, display_options, gathered

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

    from attest.release.names import KeyReference
    from attest.release.notes import VerifierKey
    from attest.release.released_key import ReleasedKey
    from attest.sealed import SealedManifest, SealingNames

_MAX_RAW_KEY_BYTES = 4096
"""Maximum size of a key file: more than any key has, so that the message can state the length."""

TRUST = click.option(
    "--trust",
    metavar="PEM",
    multiple=True,
    required=True,
    help="Public key of the model's owner, P-384 or P-256; the model itself does not name it. Repeatable.",
)

MODEL_ID = click.option(
    "--model-id",
    type=hex_of(16),
    metavar="HEX",
    help="Accept only this sealing ('attest sealed info' shows it); without it, an older "
    "sealing of its owner is accepted.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOptions:
    """The source of the key of a model: a file, a descriptor, or a service over a network.

    With a file or a descriptor, the service is named in the manifest, and not contacted.
    """

    key_file: str | None
    key_fd: int | None
    service: ServiceOptions
    network: Network
    display: Display

    @property
    def is_local(self) -> bool:
        """True if the key comes from a file or a descriptor, and not from a service."""
        return self.key_file is not None or self.key_fd is not None

    def require_one(self) -> None:
        """Require one place for the key to come from (``UsageError``)."""
        places = [self.key_file is not None, self.key_fd is not None, self.service.kms is not None]
        if sum(places[:2]) > 1 or not any(places):
            raise click.UsageError(
                "name the key's source: --key-file FILE, --key-fd N, or --kms URL with --identity TEXT (or attest.toml)"
            )

    def verifier_key(self) -> VerifierKey | None:
        """Return the service that ``--identity`` names.

        Raises:
            ConfigurationError: ``verifier-key-invalid``.
        """
        from attest.release.notes import VerifierKey

        return None if self.service.identity is None else VerifierKey.parse(self.service.identity)

    def local(self) -> bytes:
        """Read the key from its file or descriptor.

        Raises:
            ConfigurationError: ``file-unreadable``, ``secret-file-exposed`` or ``sealed-key-length``.
        """
        from attest.cli.files import read_file
        from attest.sealed.data_key import require_key

        if self.key_fd is not None:
            return require_key(_read_descriptor(self.key_fd))
        return require_key(read_file(str(self.key_file), limit=_MAX_RAW_KEY_BYTES, what="--key-file", secret=True))

    def for_sealing(
        self, reference: KeyReference, *, policy: bytes | None, creator: str | None
    ) -> tuple[bytes, SealingNames]:
        """Obtain a key to seal under, and the names for the manifest.

        Raises:
            AttestError: what reading it, or asking the service, raises.
        """
        from attest.release.names import KeyReference
        from attest.sealed import SealingNames

        service, url = self.verifier_key(), self.service.kms
        if self.is_local:
            if reference.version is None:
                raise click.UsageError(f"state the version of the key in the file: --key {reference}@1")
            if url is not None and service is None:
                raise click.UsageError("--kms and --identity go together")
            names = SealingNames(key=reference, service=service, service_url=url, policy_digest=policy, creator=creator)
            return self.local(), names
        released = self._released(reference)
        if policy is not None and policy != released.policy_digest:
            raise click.UsageError(
                f"the key is released under the policy {released.policy_digest.hex()}, not under --policy-digest"
            )
        names = SealingNames(
            key=KeyReference(name=reference.name, version=released.version),
            service=service,
            service_url=url,
            policy_digest=released.policy_digest,
            creator=creator,
        )
        return released.material, names

    def for_opening(self, manifest: SealedManifest) -> bytes:
        """Obtain the key that a verified manifest names; errors as for sealing, and ``sealed-service-differs``."""
        self._require_service(manifest)
        if self.is_local:
            return self.local()
        released = self._released(manifest.key)
        if manifest.policy_digest not in {None, released.policy_digest}:
            self.display.warn(
                "the key was released under another policy than the owner named when the model was sealed"
            )
        return released.material

    def _released(self, reference: KeyReference) -> ReleasedKey:
        from attest.cli.release_run import connect_service
        from attest.sealed.key_sources import require_model_key

        with connect_service(self.service, network=self.network, display=self.display) as (client, attester):
            (released,) = client.release((str(reference),), attester=attester)
        require_model_key(str(reference), purpose=released.purpose)
        return released

    def _require_service(self, manifest: SealedManifest) -> None:
        from attest.errors import ConfigurationError

        named = self.verifier_key()
        if named is not None and manifest.service is not None and named != manifest.service:
            raise ConfigurationError(
                "the model's key is kept by another service than --identity names",
                code="sealed-service-differs",
                field="--identity",
                expected=manifest.service.text,
                got=named.text,
                hint="use the service that the model's owner signed as the keeper of its key",
            )


_OPTIONS = (
    service_options(required=False),
    click.option("--key-file", metavar="FILE", help="A file with the key, 32 raw bytes."),
    click.option(
        "--key-fd", metavar="N", type=click.IntRange(min=0), help="An open file descriptor that the key is read from."
    ),
    network_options,
    display_options,
)


def model_key_options(command: Command) -> Command:
    """Add all options of a command that uses the key of a model; it gets one ``key_from``."""

    @wraps(command)
    def run(*, key_from: KeyOptions, **given: Any) -> object:  # noqa: ANN401  as the options are
        # With a local key no service is contacted, so the settings' service does not apply.
        if not key_from.is_local:
            key_from = replace(key_from, service=_completed_by_settings(key_from.service))
        return command(key_from=key_from, **given)

    return gathered("key_from", KeyOptions, _OPTIONS)(run)


def _completed_by_settings(service: ServiceOptions) -> ServiceOptions:
    """Complete the options from the settings of a session; see ``attest.session.settings``."""
    from attest.errors import ConfigurationError
    from attest.session.settings import load_settings

    try:
        found = load_settings({"url": service.kms, "key": service.identity}, environ=os.environ)
    except ConfigurationError as exc:
        if exc.code != "kms-not-configured":
            raise
        return service  # the command reports the missing options
    return replace(
        service,
        kms=found.url,
        identity=found.service.text,
        tls_ca=service.tls_ca or path_text(found.tls_ca),
        expect_policy=service.expect_policy or path_text(found.policy),
        expect_configuration=service.expect_configuration or found.configuration,
        unchecked_tls=service.unchecked_tls or found.unchecked_tls,
        endorsements=service.endorsements or tuple(map(str, found.endorsements)),
        anchors=service.anchors or path_text(found.anchors),
        allow_simulated=service.allow_simulated or found.allow_simulated,
        offline=service.offline or found.offline,
        log_memory=service.log_memory or path_text(found.log_memory),
        tcti=service.tcti or found.tcti,
        no_gpus=service.no_gpus or found.gpus is False,
    )


def _read_descriptor(descriptor: int) -> bytes:
    from attest.errors import ConfigurationError

    data = b""
    try:
        while len(data) <= _MAX_RAW_KEY_BYTES and (more := os.read(descriptor, _MAX_RAW_KEY_BYTES)):
            data += more
    except OSError as exc:
        raise ConfigurationError(
            f"--key-fd {descriptor} cannot be read: {exc.strerror}",
            code="file-unreadable",
            field="--key-fd",
            hint="in a shell: attest … --key-fd 3 3<model.key",
        ) from exc
    return data


def trusted_keys(files: tuple[str, ...], *, what: str = "--trust") -> tuple[ec.EllipticCurvePublicKey, ...]:
    """Read public keys.

    Raises:
        ConfigurationError: ``file-unreadable`` or ``model-key-invalid``.
    """
    return tuple(_trusted_key(one, what) for one in files)


def _trusted_key(file: str, what: str) -> ec.EllipticCurvePublicKey:
    from attest.cli.files import MAX_KEY_BYTES, read_file
    from attest.errors import ConfigurationError
    from attest.sealed.signing_keys import read_trusted_key

    pem = read_file(file, limit=MAX_KEY_BYTES, what=what)
    try:
        return read_trusted_key(pem)
    except ConfigurationError as exc:
        exc.message = f"{what} {file}: {exc.message}"
        raise


def signing_key(file: str) -> ec.EllipticCurvePrivateKey:
    """Read the key that signs.

    Raises:
        ConfigurationError: ``file-unreadable``, ``secret-file-exposed`` or ``model-key-invalid``.
    """
    from attest.cli.files import MAX_KEY_BYTES, read_file
    from attest.sealed.signing_keys import read_signing_key

    return read_signing_key(read_file(file, limit=MAX_KEY_BYTES, what="--signing-key", secret=True))
