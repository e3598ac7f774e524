"""Bill of materials of a container image in CycloneDX: packages of Debian, and libraries of Python from their locks.

::

    python -m distribution.image_sbom IMAGE_FOLDER TARGET [VARIANT]...
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from email.parser import HeaderParser
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final, TypeAlias

from packageurl import PackageURL
from packaging.utils import canonicalize_name

from attest import __version__
from distribution.sbom import write_sbom

ROOT: Final = Path(__file__).resolve().parent.parent
OWN: Final = "attest-kms"
Component: TypeAlias = dict[str, Any]  # JSON


def write_image_sbom(image: Path, target: Path, *, bills: Sequence[Path]) -> None:
    """Write the bill of an image, the same bytes each time.

    Args:
        image: folder with the image's files.
        target: file of the bill.
        bills: bills of the lock files that the image is built from.

    Raises:
        ValueError: a library of the image is in none of its lock files, or it has no list of Debian's packages.
    """
    components = [*_debian(image), _python(image), *_libraries(image, _locked(bills))]
    for number, component in enumerate(components):
        component["bom-ref"] = component.get("purl") or f"component-{number}"
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": OWN, "version": __version__, "bom-ref": OWN}},
        "components": components,
        "dependencies": [{"ref": OWN, "dependsOn": sorted(one["bom-ref"] for one in components)}],
    }
    target.write_text(json.dumps(bill, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _debian(image: Path) -> Iterator[Component]:
    """Return the operating system and its installed packages."""
    lines = (image / "etc/os-release").read_text(encoding="utf-8").splitlines()
    release = {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines)}
    system, version = release["ID"], release["VERSION_ID"]
    yield {"type": "operating-system", "name": system, "version": version}
    installed = sorted(_installed(image), key=lambda fields: (fields["Package"], fields["Architecture"]))
    if not installed:
        raise ValueError("/var/lib/dpkg/status lists no package")
    for fields in installed:
        qualifiers = {"arch": fields["Architecture"], "distro": f"{system}-{version}"}
        source, _, source_version = fields.get("Source", fields["Package"]).partition(" ")
        named = f"{source} {source_version.strip('()') or fields['Version']}"
        yield {
            "type": "library",
            "name": fields["Package"],
            "version": fields["Version"],
            "purl": PackageURL("deb", system, fields["Package"], fields["Version"], qualifiers).to_string(),
            "properties": [{"name": "debian:source", "value": named}],
        }


def _installed(image: Path) -> Iterator[dict[str, str]]:
    """Return the fields of each installed package."""
    for paragraph in (image / "var/lib/dpkg/status").read_text(encoding="utf-8").split("\n\n"):
        fields = dict(HeaderParser().parsestr(paragraph.strip()).items())
        if fields.get("Status", "").endswith(" installed"):
            yield fields


def _python(image: Path) -> Component:
    """Return the interpreter, which a base image may have from elsewhere than Debian."""
    lines = (image / "opt/kms/pyvenv.cfg").read_text(encoding="utf-8").splitlines()
    settings = {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}
    version = settings["version"]
    purl = PackageURL("generic", None, "python", version).to_string()
    return {"type": "application", "name": "python", "version": version, "purl": purl}


def _locked(bills: Sequence[Path]) -> dict[tuple[str, str], Component]:
    """Return the components of lock files by name and version."""
    return {
        (str(canonicalize_name(component["name"])), component["version"]): component
        for bill in bills
        for component in json.loads(bill.read_bytes())["components"]
    }


def _libraries(image: Path, locked: dict[tuple[str, str], Component]) -> Iterator[Component]:
    """Return the installed libraries as the lock files have them."""
    paths = [str(path) for path in (image / "opt/kms/lib").glob("python*/site-packages")]
    for name, version in sorted({(canonicalize_name(one.name), one.version) for one in distributions(path=paths)}):
        if name == OWN:
            continue
        if (name, version) not in locked:
            raise ValueError(f"{name} {version} is in the image, but in no lock file")
        yield locked[name, version]


def main(image: str, target: str, *variants: str) -> None:
    """Write the bill of the image whose files lie in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        bills = [Path(folder) / f"{name}.json" for name in ("service", *variants)]
        for bill in bills:
            write_sbom(ROOT, bill.stem, bill)
        write_image_sbom(Path(image), Path(target), bills=bills)


if __name__ == "__main__":
    main(*sys.argv[1:])
