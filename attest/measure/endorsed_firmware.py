"""The files beside a launch endorsement: the endorsement itself, its root, and the firmware image that it is about."""

from __future__ import annotations

from pathlib import Path

from attest.errors import VerificationError
from attest.measure.inputs import digest_file, read_whole
from attest.measure.launch_endorsement import MAX_ENDORSEMENT_BYTES, VerifiedLaunchEndorsement


def read_endorsement(path: Path) -> bytes:
    """Read the file of an endorsement, or of a root.

    Raises:
        ConfigurationError: ``measure-file-unreadable``.
    """
    return read_whole(path, limit=MAX_ENDORSEMENT_BYTES)


def require_endorsed_firmware(endorsement: VerifiedLaunchEndorsement, firmware: Path) -> None:
    """Require that a firmware image is the endorsed one.

    Raises:
        ConfigurationError: ``measure-file-unreadable``.
        VerificationError: ``launch-endorsement-of-another-firmware``.
    """
    found, expected = digest_file(firmware).sha384, endorsement.parsed.firmware_sha384
    if found != expected:
        raise VerificationError(
            f"{firmware} is not the endorsed firmware",
            code="launch-endorsement-of-another-firmware",
            expected=expected.hex(),
            got=found.hex(),
            hint="get the image that is published under the expected digest",
        )
