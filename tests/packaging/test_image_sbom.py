"""The image's bill of materials: every package of Debian and of Python that lies in it, and no other."""

import json
from pathlib import Path

import pytest
from packageurl import PackageURL

from distribution.image_sbom import write_image_sbom
from distribution.sbom import write_sbom

pytestmark = pytest.mark.apart

ROOT = Path(__file__).resolve().parents[2]
STATUS = """Package: libc6
Status: install ok installed
Architecture: amd64
Source: glibc
Version: 2.36-9+deb12u10
Description: GNU C Library
 Version: 0

Package: tss
Status: install ok installed
Architecture: all
Source: tpm2-tss (3.2.1-3)
Version: 1:3.2~rc1-3

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""
RELEASE = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nNAME="Debian GNU/Linux"\nVERSION_ID="12"\nID=debian\n'


def locked(name: str) -> str:
    lines = (ROOT / "requirements" / "service.txt").read_text(encoding="utf-8").splitlines()
    (line,) = [each for each in lines if each.startswith(f"{name}==")]
    return line.removeprefix(f"{name}==").split()[0]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bill of the lock file that the image is built from."""
    path = tmp_path_factory.mktemp("bills") / "service.json"
    write_sbom(ROOT, "service", path)
    return path


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """The files of an image that a bill is made from."""
    root = tmp_path / "image"
    for path, text in {
        "var/lib/dpkg/status": STATUS,
        "etc/os-release": RELEASE,
        "opt/kms/pyvenv.cfg": "home = /usr/bin\nversion = 3.11.2\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    install(root, "attest-kms", "0.1.0")
    install(root, "cryptography", locked("cryptography"))
    return root


def install(root: Path, name: str, version: str) -> None:
    folder = root / "opt/kms/lib/python3.11/site-packages" / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n", encoding="utf-8")


def bill_of(image: Path, service: Path, tmp_path: Path, name: str = "bill.json") -> dict[str, object]:
    write_image_sbom(image, tmp_path / name, bills=[service])
    text = (tmp_path / name).read_text(encoding="utf-8")
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator  # takes seconds, which all other tests would wait for

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    found: dict[str, object] = json.loads(text)
    return found


def test_the_bill_names_what_lies_in_the_image_by_its_package_url(image: Path, service: Path, tmp_path: Path) -> None:
    components = bill_of(image, service, tmp_path)["components"]
    assert isinstance(components, list)
    assert sorted(PackageURL.from_string(one["purl"]) for one in components if "purl" in one) == sorted(
        [
            PackageURL("deb", "debian", "libc6", "2.36-9+deb12u10", {"arch": "amd64", "distro": "debian-12"}),
            PackageURL("deb", "debian", "tss", "1:3.2~rc1-3", {"arch": "all", "distro": "debian-12"}),
            PackageURL("generic", None, "python", "3.11.2"),
            PackageURL("pypi", None, "cryptography", locked("cryptography")),
        ]
    )
    assert [(one["name"], one["version"]) for one in components if one["type"] == "operating-system"] == [
        ("debian", "12")
    ]
    (library,) = [one for one in components if one["name"] == "cryptography"]
    assert library["externalReferences"], "the digests of the lock file"


def test_debians_packages_name_the_source_that_its_advisories_are_about(
    image: Path, service: Path, tmp_path: Path
) -> None:
    components = bill_of(image, service, tmp_path)["components"]
    assert isinstance(components, list)
    sources = {
        one["name"]: one["properties"][0]["value"] for one in components if one.get("purl", "").startswith("pkg:deb")
    }
    assert sources == {"libc6": "glibc 2.36-9+deb12u10", "tss": "tpm2-tss 3.2.1-3"}


def test_the_same_image_gives_the_same_bill(image: Path, service: Path, tmp_path: Path) -> None:
    for name in ("one.json", "two.json"):
        bill_of(image, service, tmp_path, name)
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_a_library_that_no_lock_file_names_is_refused(image: Path, service: Path, tmp_path: Path) -> None:
    install(image, "stowaway", "1.0")
    with pytest.raises(ValueError, match=r"stowaway 1\.0 is in the image, but in no lock file"):
        bill_of(image, service, tmp_path)


def test_a_library_in_another_version_than_the_locked_one_is_refused(
    image: Path, service: Path, tmp_path: Path
) -> None:
    install(image, "click", "0.1")
    with pytest.raises(ValueError, match=r"click 0\.1 is in the image, but in no lock file"):
        bill_of(image, service, tmp_path)


def test_an_image_without_debians_list_of_packages_is_refused(image: Path, service: Path, tmp_path: Path) -> None:
    (image / "var/lib/dpkg/status").write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match="lists no package"):
        bill_of(image, service, tmp_path)
