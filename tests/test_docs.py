"""Promises of the documentation, compared with the code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from attest.policy import load_policy
from attest.policy.azure import AzureDemands
from attest.policy.devices import Count, DeviceSetDemands
from attest.policy.dstack import AcceptedKeyProvider, DstackDemands
from attest.policy.eventlog import ApplicationEvents, EventLogDemands
from attest.policy.gpu import GpuDemands, SwitchDemands
from attest.policy.intel import SgxDemands, TdxDemands
from attest.policy.intel_tcb import AcceptedAdvisory, TcbDemands
from attest.policy.model import AtLeastOf, PolicyDocument
from attest.policy.snp import SnpAbi, SnpDemands
from attest.policy.versions import VersionRange
from tests.pages import page_text

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("attest", "attest_kms", "kms", "rag_demo", "simulator")
SOURCES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
CODE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")


def codes_in(path: Path) -> Iterator[str]:
    """Every error code that a file writes out as an argument ``code=``."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg == "code":
                    for part in ast.walk(keyword.value):
                        if isinstance(part, ast.Constant) and isinstance(part.value, str):
                            yield part.value


def test_every_error_code_is_documented() -> None:
    documented = set(re.findall(r"`([a-z0-9-]+)`", page_text("errors")))
    raised = {code for path in SOURCES for code in codes_in(path) if CODE.fullmatch(code)}
    assert len(raised) > 100
    assert raised - documented == set()


def test_no_documented_code_is_an_invention() -> None:
    table = [line for line in page_text("errors").splitlines() if line.startswith("| `")]
    documented = {code for line in table for code in CODE.findall(line.split("|")[1])}
    # Some codes are of the page alone.
    text = "\n".join(path.read_text() for path in [*SOURCES, *(ROOT / "page/src").rglob("*.ts")])
    composed = {"certificate-malformed", "crl-malformed", "maa-url-invalid"} | {
        f"binding-{w}-mismatch" for w in ("context", "role", "audience")
    }
    composed |= {
        f"{service}-{problem}"
        for service in ("kds", "pcs", "rim", "ocsp")
        for problem in ("not-found", "throttled", "unreachable", "answer-invalid", "url-invalid")
    }
    missing = {code for code in documented - composed if f'"{code}"' not in text}
    assert missing == set()


LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


@pytest.mark.parametrize(
    "page", [str(p.relative_to(ROOT)) for p in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]]
)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    for target in LINK.findall((ROOT / page).read_text()):
        assert ((ROOT / page).parent / target).exists(), target


def test_every_test_that_a_page_names_is_there() -> None:
    named = {
        (path, name)
        for page in (ROOT / "docs").rglob("*.md")
        for path, name in re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", page.read_text())
    }
    assert named
    missing = {
        f"{path}::{name}"
        for path, name in named
        if not (ROOT / path).is_file() or f"def {name}(" not in (ROOT / path).read_text()
    }
    assert missing == set()


def test_everything_that_must_be_checked_has_a_test_that_carries_its_number() -> None:
    text = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    names = re.findall(r"def (test_\w+)", text)
    found = {int(number) for name in names for number in re.findall(r"(?:mc|must_check)_(\d+)", name)}
    assert set(range(1, 43)) - found == set()


def test_every_must_check_number_that_a_test_names_exists() -> None:
    numbers = {
        int(n)
        for path in (ROOT / "tests").rglob("*.py")
        for n in re.findall(r"(?:must-check|MC-) ?(\d+)", path.read_text())
    }
    assert numbers <= set(range(1, 43))


def test_the_policy_in_the_documentation_loads() -> None:
    page = page_text("policy")
    example = page.split("```yaml\n")[1].split("```")[0]
    policy = load_policy(re.sub(r'"[0-9a-f]{8}….*?"', f'"{"d9" * 48}"', example).encode())
    assert policy.name == "rag-enclave"


def test_every_key_of_a_policy_is_documented() -> None:
    page = page_text("policy")
    named = set(re.findall(r"`([a-z_0-9]+)`", page))
    sections = (
        AzureDemands,
        SnpDemands,
        PolicyDocument,
        TdxDemands,
        SgxDemands,
        TcbDemands,
        AcceptedAdvisory,
        EventLogDemands,
        DstackDemands,
        AcceptedKeyProvider,
    )
    nvidia = (GpuDemands, SwitchDemands, DeviceSetDemands, Count, AtLeastOf, SnpAbi)
    keys = {name for section in (*sections, ApplicationEvents, *nvidia) for name in section.__dataclass_fields__}
    assert set(VersionRange.__dataclass_fields__) <= set(re.findall(r"([a-z_]+): ", page))
    structure = {"tcb", "rtmrs", "pcrs"}  # of the types alone: their members are keys of the section
    assert keys - structure <= named
    assert {f"rtmr{number}" for number in range(4)} <= named


def test_every_policy_in_the_documentation_loads() -> None:
    page = page_text("policy")
    blocks = [part.split("```")[0] for part in page.split("```yaml\n")[1:]]
    examples = [block for block in blocks if block.startswith("schema: attest.policy/1\n")]
    assert len(examples) == 6
    for example in examples:
        whole = re.sub(r'"[0-9a-f]{8}…(\d+) hex digits"', lambda found: f'"{"d" * int(found[1])}"', example)
        load_policy(whole.encode())


INTERNAL = re.compile(
    r"must-check|\bDESIGN\b|(?<!docs/)\b(?:sev-snp|intel-tdx-sgx|nvidia-gpu|azure-cvm|azure-skr|eat-ear|kbs-protocol|formats)\.md"
)


def _shown_texts(path: Path) -> Iterator[str]:
    """Every text of a file that is no docstring."""
    tree = ast.parse(path.read_text())
    silent = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node.value


def test_no_output_cites_a_document_that_its_reader_cannot_have() -> None:
    cited = {
        f"{path.relative_to(ROOT)}: {text}" for path in SOURCES for text in _shown_texts(path) if INTERNAL.search(text)
    }
    for path in (ROOT / "page/src").rglob("*.ts"):
        lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith(("//", "*", "/*"))]
        cited |= {f"{path.relative_to(ROOT)}: {line}" for line in lines if INTERNAL.search(line)}
    assert cited == set()


def test_a_clause_that_cites_our_documentation_names_a_page_that_is_there() -> None:
    texts = {part for path in SOURCES for text in _shown_texts(path) for part in text.split("; ")}
    cited = {found[1] for text in texts if (found := re.match(r"^docs/([\w-]+\.md)\b", text))}
    assert len(cited) > 5
    assert {page for page in cited if not (ROOT / "docs" / page).is_file()} == set()
