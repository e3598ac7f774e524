"""Errors of the kernel's interfaces by errno, with remedies: one table for each interface."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import TypeVar

from attest.errors import CollectionError, EvidenceError

_T = TypeVar("_T")

BUSY = frozenset({errno.EBUSY, errno.EAGAIN, errno.EINTR, errno.ETIMEDOUT})
"""The host throttles reports, and delays quotes under load."""
_PERMISSION = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})

_CONFIGFS = {
    errno.ENXIO: (
        "tsm-provider-missing",
        "the kernel has nothing that makes reports",
        "load the driver of this guest: modprobe sev-guest, or modprobe tdx-guest",
    ),
    errno.EINVAL: (
        "tsm-refused",
        "the kernel, or the firmware behind it, refused the request",
        "look at the kernel log; a VMPL below the kernel's own is not available",
    ),
    errno.EFBIG: (
        "collected-too-long",
        "the report is longer than the kernel returns",
        "a newer kernel returns longer reports",
    ),
    errno.ENOTTY: (
        "sev-guest-key-disabled",
        "the kernel no longer has the key with which it talks to the firmware",
        "the kernel gives that key up after a failure between it and the firmware; restart the guest",
    ),
}
_SEV_GUEST = {
    errno.ENOTTY: _CONFIGFS[errno.ENOTTY],
    errno.EINVAL: ("sev-guest-refused", "the kernel refused the request", "look at the kernel log"),
}
_TDX_GUEST = {
    errno.EIO: ("tdx-guest-refused", "the TDX module refused to make a report", "look at the kernel log"),
}
_TPM = {
    errno.ENOENT: (
        "tpm-missing",
        "there is no TPM",
        "modprobe tpm_crb, or tpm_tis; in a container, pass /dev/tpmrm0 through",
    ),
}
_KNOWN = {"configfs-tsm": _CONFIGFS, "sev-guest": _SEV_GUEST, "tdx-guest": _TDX_GUEST, "tpm": _TPM}
_OTHERWISE = ("collection-failed", "the kernel gave no evidence", "look at the kernel log")


def permission_denied(exc: OSError, path: str) -> CollectionError:
    """Return the error for a missing permission, with the permitted group."""
    return CollectionError(
        f"this user may not use {path}",
        code="collection-permission-denied",
        field=path,
        got=_text(exc),
        hint="run as root; in a container, pass the device or mount /sys/kernel/config, writable, at /run/configfs",
    )


def refused_by(interface: str, exc: OSError, *, step: str, detail: str = "") -> CollectionError:
    """Return the error for a kernel's OSError."""
    if exc.errno in _PERMISSION:
        return permission_denied(exc, step)
    if exc.errno in BUSY:
        return CollectionError(
            f"{step}: the host or the firmware is busy ({_text(exc)})" + (f": {detail}" if detail else ""),
            code="collection-busy",
            field=step,
            got=_text(exc),
            hint="ask again in a few seconds; a host throttles reports, and makes quotes one after the other",
            retryable=True,
        )
    code, meaning, hint = _KNOWN[interface].get(exc.errno or 0, _OTHERWISE)
    return CollectionError(
        f"{step}: {meaning} ({detail or _text(exc)})", code=code, field=step, got=detail or _text(exc), hint=hint
    )


def _text(exc: OSError) -> str:
    return exc.strerror or (os.strerror(exc.errno) if exc.errno else str(exc))


def ignored(what: str, field: str, wanted: bytes, got: bytes, *, who: str) -> CollectionError:
    """Return the error for an answer to another request."""
    return CollectionError(
        f"{what} commits to something else than it was asked to",
        code="report-data-ignored",
        field=field,
        expected=wanted.hex(),
        got=got.hex(),
        hint=f"ask again; if it stays, {who} does not do what it was asked",
    )


def parsed(parse: Callable[[bytes], _T], data: bytes, what: str, *, hint: str) -> _T:
    """Return a collected piece, parsed; the hint continues "ask again; if it stays, ".

    Raises:
        CollectionError: ``collected-malformed``.
    """
    try:
        return parse(data)
    except EvidenceError as exc:
        raise CollectionError(
            f"the {what} cannot be read: {exc.message}",
            code="collected-malformed",
            field=exc.field,
            expected=exc.expected,
            got=exc.got,
            hint=f"ask again; if it stays, {hint}",
        ) from exc
