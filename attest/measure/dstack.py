"""A published image of dstack: a directory with firmware, kernel, initial RAM disk and their descriptions.

Spec: specs/dstack.md, sections 3 and 4. ``vm_config`` is unsigned: a wrong one gives a wrong RTMR0, nothing worse.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import NoReturn

from attest.encoding import JsonValue, json_value
from attest.errors import ConfigurationError, EvidenceError
from attest.measure.inputs import digest_file, read_whole
from attest.measure.tdvf import PageOrder
from attest.measure.tdx import TdxLaunch, kernel_header_of, page_order_of

MAX_DESCRIPTION_BYTES = 1 << 20
SUMS_FILE = "sha256sum.txt"

_CLAUSE = "dstack, measurements of an image"
_METADATA_FILE = "metadata.json"
_PARTS = ("bios", "kernel", "initrd")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SUM = re.compile(r"([0-9a-f]{64})  (?:\./)?(\S+)")
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})(?:\.\w+)?")
_LAST_RECORDED = (0, 5, 8)
"""Later images have firmware that measures more into RTMR0; no boot of them is recorded."""
_KNOWN_FIRMWARE = "pre202505"
_DEFAULT_QEMU = (9, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DstackImage:
    """An image whose files are those that its list of digests names.

    Attributes:
        os_image: SHA-256 of the list: dstack's ``os_image_hash``.
        files: firmware, kernel and initial RAM disk by member of ``metadata.json``.
        cmdline: the kernel's command line, without the part that the firmware adds.
        unknown_rtmr0: reason why the firmware's events are not known; None if they are.
    """

    os_image: bytes
    files: Mapping[str, Path]
    cmdline: str
    unknown_rtmr0: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VmConfig:
    """The machine as dstack's VMM describes it, as far as measurements depend on it.

    Attributes:
        qemu: major and minor version.
        page_order_stated: the VMM states an order of the firmware's pages; its meaning differs between versions.
    """

    memory: int
    qemu: tuple[int, int]
    page_order_stated: bool
    os_image: bytes | None


def dstack_launch(
    image: DstackImage, config: VmConfig, *, page_order: PageOrder | None, acpi_tables: Path | None
) -> TdxLaunch:
    """Return the launch of an image on a machine.

    Raises:
        ConfigurationError: ``measure-options-invalid``: the configuration is of another image, or does not say in
            which order the firmware's pages are measured.
    """
    if config.os_image is not None and config.os_image != image.os_image:
        raise ConfigurationError(
            "the configuration is of another image",
            code="measure-options-invalid",
            expected=f"os_image_hash {image.os_image.hex()}",
            got=config.os_image.hex(),
            clause=_CLAUSE,
            hint="give the image that the configuration names",
        )
    if config.page_order_stated and page_order is None:
        raise ConfigurationError(
            "the configuration has qemu_single_pass_add_pages, which versions of dstack read in opposite ways",
            code="measure-options-invalid",
            expected="--page-order",
            clause=_CLAUSE,
            hint="measure with each --page-order, and see which one gives the MRTD of the quote",
        )
    return TdxLaunch(
        firmware=image.files["bios"],
        page_order=page_order or page_order_of(config.qemu),
        memory=config.memory,
        kernel=image.files["kernel"],
        kernel_header=kernel_header_of(config.qemu),
        initrd=image.files["initrd"],
        cmdline=image.cmdline,
        acpi_tables=acpi_tables,
        unknown_rtmr0=image.unknown_rtmr0,
    )


def read_dstack_image(directory: Path) -> DstackImage:
    """Read the descriptions of an image and compare its files with the list of digests.

    Raises:
        ConfigurationError: ``measure-file-unreadable`` or ``measure-image-invalid``.
    """
    sums = read_whole(directory / SUMS_FILE, limit=MAX_DESCRIPTION_BYTES)
    listed = _listed(sums)
    metadata = read_whole(directory / _METADATA_FILE, limit=MAX_DESCRIPTION_BYTES)
    _require_listed(listed, _METADATA_FILE, sha256(metadata).digest())
    members = _object(metadata, _METADATA_FILE)
    names = {part: _text(members, part) for part in _PARTS}
    for name in names.values():
        if not _PLAIN_NAME.fullmatch(name):
            _refuse(f"{_METADATA_FILE} names a file {name!r}")
        _require_listed(listed, name, digest_file(directory / name).sha256)
    return DstackImage(
        os_image=sha256(sums).digest(),
        files={part: directory / name for part, name in names.items()},
        cmdline=_text(members, "cmdline"),
        unknown_rtmr0=_unknown_rtmr0(members),
    )


def read_vm_config(path: Path) -> bytes:
    """Read the file of a ``vm_config``.

    Raises:
        ConfigurationError: ``measure-file-unreadable``.
    """
    return read_whole(path, limit=MAX_DESCRIPTION_BYTES)


def parse_vm_config(data: bytes) -> VmConfig:
    """Read ``vm_config``, or an answer of dstack that holds it as text.

    Raises:
        ConfigurationError: ``measure-image-invalid``.
    """
    members = _object(data, "vm_config")
    inner = members.get("vm_config")
    if isinstance(inner, str):
        members = _object(inner.encode(), "vm_config")
    memory, qemu, stated = (members.get(name) for name in ("memory_size", "qemu_version", "qemu_single_pass_add_pages"))
    if type(memory) is not int or memory < 0:
        _refuse("vm_config has no memory_size in bytes")
    image = members.get("os_image_hash")
    if image is not None and not (isinstance(image, str) and re.fullmatch(r"[0-9a-f]{64}", image)):
        _refuse("os_image_hash of vm_config is no SHA-256")
    return VmConfig(
        memory=memory,
        qemu=_DEFAULT_QEMU if qemu is None else _version(qemu, "qemu_version of vm_config")[:2],
        page_order_stated=stated is not None,
        os_image=None if image is None else bytes.fromhex(image),
    )


def _unknown_rtmr0(members: Mapping[str, JsonValue]) -> str | None:
    variant = members.get("ovmf_variant")
    if variant == _KNOWN_FIRMWARE:
        return None
    if variant is not None:
        return f"firmware {variant!r} measures events of which no boot is recorded"
    if _version(members.get("version"), f"version of {_METADATA_FILE}") > _LAST_RECORDED:
        return "firmware of images after 0.5.8 measures events of which no boot is recorded"
    return None


def _version(value: JsonValue, what: str) -> tuple[int, int, int]:
    found = _VERSION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        _refuse(f"{what} is {value!r}, not three numbers")
    return int(found[1]), int(found[2]), int(found[3])


def _listed(sums: bytes) -> dict[str, bytes]:
    """Read lines of SHA-256 and name, as sha256sum writes them."""
    try:
        lines = sums.decode("ascii").splitlines()
    except UnicodeDecodeError as exc:
        raise _invalid(f"{SUMS_FILE} is no ASCII text") from exc
    found = [_SUM.fullmatch(line) for line in lines]
    digests = {match[2]: bytes.fromhex(match[1]) for match in found if match is not None}
    if len(digests) != len(lines):
        _refuse(f"{SUMS_FILE} has a line that is not a digest and a name, or a name twice")
    return digests


def _require_listed(listed: Mapping[str, bytes], name: str, digest: bytes) -> None:
    if listed.get(name) != digest:
        _refuse(f"{name} is not the file that {SUMS_FILE} lists")


def _object(data: bytes, what: str) -> dict[str, JsonValue]:
    try:
        value = json_value(data, what=what)
    except EvidenceError as exc:
        raise _invalid(exc.message) from exc
    if not isinstance(value, dict):
        _refuse(f"{what} is no JSON object")
    return value


def _text(members: Mapping[str, JsonValue], name: str) -> str:
    value = members.get(name)
    if not isinstance(value, str):
        _refuse(f"{_METADATA_FILE} has no text {name!r}")
    return value


def _refuse(problem: str) -> NoReturn:
    raise _invalid(problem)


def _invalid(problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"this is no published image of dstack: {problem}",
        code="measure-image-invalid",
        expected=f"a directory with {SUMS_FILE}, {_METADATA_FILE} and the files that they name, and a vm_config",
        clause=_CLAUSE,
        hint="unpack the archive of the release again; vm_config is in the answer to GetQuote",
    )
