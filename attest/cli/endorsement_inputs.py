"""Endorsements and trust anchors that the command line names."""

from __future__ import annotations

from datetime import datetime

from attest.cli.files import read_file, walk_endorsements
from attest.endorsements.anchors import TrustAnchors, read_anchor_file
from attest.endorsements.bundle_records import BundleTrust, UnsignedBundles
from attest.endorsements.pool import Endorsements
from attest.evidence.endorsement_files import MAX_FILE_BYTES, read_endorsements
from attest.terminal.display import Display

MAX_ANCHORS_BYTES = 1024 * 1024


def read_anchors(file: str | None, *, simulated: bool) -> TrustAnchors:
    """Return the vendors' anchors as changed by a file, with the simulator's roots if those are accepted.

    Raises:
        ConfigurationError: the file cannot be read, or is no anchor file.
    """
    anchors = TrustAnchors.vendors()
    if file is not None:
        anchors = read_anchor_file(read_file(file, limit=MAX_ANCHORS_BYTES, what="--anchors"), base=anchors)
    return anchors.with_anchors(TrustAnchors.simulation().anchors) if simulated else anchors


def read_pool(
    paths: tuple[str, ...], *, at: datetime, display: Display, bundle_keys: BundleTrust = UnsignedBundles.ACCEPTED
) -> Endorsements:
    """Read the endorsements below the paths; a file that is passed over gets a warning or a note.

    Raises:
        ConfigurationError: ``file-unreadable``.
    """
    found = read_endorsements(
        walk_endorsements(paths, limit=MAX_FILE_BYTES, warn=display.warn), at=at, bundle_keys=bundle_keys
    )
    for warning in found.warnings:
        display.warn(warning)
    for note in found.notes:
        display.note(note)
    return found.endorsements
