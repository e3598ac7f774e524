"""What is an extra is not needed before it is used, and its absence is said in one line."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.policy.skr_documents import equals, skr
from tests.results import services, tokens

pytestmark = pytest.mark.apart

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
TOKENS_HINT = "hint: pip install 'attest-kms[tokens]'"
WITHOUT = """
import sys
sys.modules[{module!r}] = None  # an import of it fails, as where it is not installed
from attest.cli.main import main
raise SystemExit(main())
"""
CORE_ALONE = """
import sys
from importlib.abc import MetaPathFinder

CORE = {"attest", "cbor2", "cryptography", "rfc8785", *sys.stdlib_module_names, *sys.builtin_module_names}

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in CORE and not name.startswith("_"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
"""
IMPORT_ALL = """
import pkgutil
from importlib import import_module

count = 0
for name in ("evidence", "endorsements", "policy", "results", "rego", "release"):
    package = import_module(f"attest.{name}")
    for module in pkgutil.walk_packages(package.__path__, f"attest.{name}."):
        if not module.name.endswith("worker"):
            import_module(module.name)
            count += 1
import attest.appraisal, attest.verification
print(count)
"""
CONVERT = """
from attest.policy.foreign.convert import convert_skr, export_skr
from attest.policy.foreign.skr import parse_skr

conversion = convert_skr(parse_skr(sys.stdin.buffer.read()), name="rag", accept={"authority": "we verify"})
print(conversion.document["name"])
"""


def python(code: str, *arguments: object, at: Path, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    line = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(line, capture_output=True, cwd=at, input=given, timeout=120, check=False)


def refusal(done: subprocess.CompletedProcess[bytes]) -> list[str]:
    assert done.returncode == 2, done.stderr
    assert done.stdout == b""
    return done.stderr.decode().splitlines()


def test_each_extra_declares_what_it_needs() -> None:
    assert [line.split(">")[0] for line in EXTRAS["tokens"]] == ["joserfc"]
    assert [line.split(">")[0] for line in EXTRAS["rego"]] == ["regopy"]
    assert EXTRAS["skr"] == []
    assert EXTRAS["demo"] == ["attest-kms[rag]", "attest-simulator"]
    assert [line for line in EXTRAS["cli"] if line.startswith("attest")] == ["attest-kms[gpu]"]
    others = {name: lines for name, lines in EXTRAS.items() if name not in ("demo", "dev")}
    assert [name for name, lines in others.items() if any("simulator" in line for line in lines)] == []


def test_the_core_is_imported_with_its_own_dependencies_alone(tmp_path: Path) -> None:
    done = python(CORE_ALONE + IMPORT_ALL, at=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    assert int(done.stdout) > 100


def test_a_release_policy_of_azure_is_converted_with_the_core_alone(tmp_path: Path) -> None:
    policy = skr(equals("x-ms-isolation-tee.x-ms-attestation-type", "sevsnpvm"))
    done = python(CORE_ALONE + CONVERT, at=tmp_path, given=policy)
    assert done.stdout == b"rag\n", done.stderr.decode()


def test_without_the_engine_rego_names_its_extra(tmp_path: Path) -> None:
    line = ("appraise", "it", "--policy", ROOT / "policies/snp-lab-simulated.yaml", "--rego", "it.rego")
    assert refusal(python(WITHOUT.format(module="regopy"), *line, at=tmp_path)) == [
        "error: --rego: the Rego engine is not installed",
        "hint: pip install 'attest-kms[rego]', on glibc 2.34 or newer",
    ]


def test_without_the_library_provenance_names_its_extra(tmp_path: Path) -> None:
    document = {
        "schema": "attest.references/1",
        "name": "fleet",
        "version": 1,
        "origin": "us",
        "issued": "2026-01-01T00:00:00Z",
        "expires": "2026-07-01T00:00:00Z",
        "values": {"image": {"kind": "snp-measurement", "values": ["01" * 48]}},
    }
    (tmp_path / "it.json").write_text(json.dumps(document))
    files = ("it.json", "--provenance", "b.json", "--trusted-root", "r.json", "--identity", "me", "--issuer", "us")
    assert refusal(python(WITHOUT.format(module="sigstore"), "references", "verify", *files, at=tmp_path)) == [
        "error: 'attest' needs the extra 'sigstore' of attest-kms: the module 'sigstore' is not installed",
        "hint: pip install 'attest-kms[sigstore]'",
    ]


@pytest.mark.parametrize("sample", ["maa sevsnpvm", "ita tdx", "google", "nras"])
@pytest.mark.parametrize("command", ["verify", "appraise"])
def test_without_joserfc_the_token_of_another_verifier_names_its_extra(
    tmp_path: Path, sample: str, command: str
) -> None:
    if sample == "nras":
        signer = tokens.Signer()
        issuer, token, keys = tokens.ISSUER, tokens.token(signer), signer.jwks()
    else:
        claims = services.SAMPLES[sample]
        issuer, token, keys = claims["iss"], services.SERVICE.sign(claims), services.SERVICE.jwks()
    (tmp_path / "token").write_bytes(token)
    (tmp_path / "keys").write_bytes(keys)
    line = (command, "token", "--trust", f"{issuer}=keys", "--at", services.AT.isoformat(), "--offline")
    absent = WITHOUT.format(module="joserfc")
    assert refusal(python(absent, *line, at=tmp_path)) == [
        "error: --trust keys: the signature of a token cannot be checked: joserfc is not installed",
        TOKENS_HINT,
    ]


def test_key_sets_among_the_endorsements_are_not_passed_over_without_joserfc(tmp_path: Path) -> None:
    signer = tokens.Signer()
    (tmp_path / "token").write_bytes(tokens.token(signer))
    (tmp_path / "endorsements").mkdir()
    (tmp_path / "endorsements" / "keys.json").write_bytes(signer.jwks())
    line = ("verify", "token", "--endorsements", "endorsements", "--at", tokens.AT.isoformat(), "--offline")
    assert refusal(python(WITHOUT.format(module="joserfc"), *line, at=tmp_path))[-1] == TOKENS_HINT
