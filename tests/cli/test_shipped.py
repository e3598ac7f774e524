"""What comes with the commands: policies to copy, and the documentation of their version."""

import posixpath
import re
from pathlib import Path

import httpx
import pytest

from attest.page.server import page_server
from attest.policy import load_policy
from attest.shipped import documentation_files, pages, policy_templates
from attest.shipped.parts import part_of
from documentation import checks
from tests.cli.conftest import Attest, Files
from tests.page.served import served

REPOSITORY = Path(__file__).resolve().parents[2]
POLICIES = {path.stem for path in (REPOSITORY / "policies").glob("*.yaml") if not path.stem.endswith(".tests")}
IN_THE_REPOSITORY_ALONE = (
    "deploy/",
    "examples/",
    "tests/",
    "SECURITY.md",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "prose/",
)


def test_every_policy_of_the_repository_is_listed_with_its_description(attest: Attest) -> None:
    ran = attest("policy", "template")
    assert ran.code == 0
    assert {line.split()[0] for line in ran.out.splitlines()} == POLICIES
    listed = attest("policy", "template", "--json").document
    assert listed["schema"] == "attest.policy-templates/1"
    assert {one["name"] for one in listed["policies"]} == POLICIES
    assert all(one["description"] for one in listed["policies"])
    simulated = {one["name"] for one in listed["policies"] if one["accepts_simulated"]}
    assert simulated == {name for name in POLICIES if name.endswith("-simulated")}


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_a_template_is_the_policy_of_the_repository(attest: Attest, name: str) -> None:
    printed = attest("policy", "template", name)
    original = (REPOSITORY / "policies" / f"{name}.yaml").read_bytes()
    assert load_policy(printed.out.encode()).digest == load_policy(original).digest
    assert "$schema=../" not in printed.out
    assert printed.err == ""


def test_a_template_can_be_appraised_with_at_once(attest: Attest, files: Files) -> None:
    policy = files.write("lab.yaml", policy_templates()["snp-lab-simulated"].text.encode())
    line = (
        "appraise",
        files.extended,
        "--nonce-text",
        "question",
        "--policy",
        policy,
        "--allow-simulated",
        "--offline",
    )
    assert attest(*line, "--at", "2026-06-01T00:00:00Z").code == 0
    strict = files.write("strict.yaml", policy_templates()["snp-production"].text.encode())
    assert attest(*line[:5], strict, *line[6:], "--at", "2026-06-01T00:00:00Z").code == 1


@pytest.mark.parametrize(("name", "said"), [("snp-productoin", "did you mean 'snp-production'?"), ("zz", "there are ")])
def test_a_template_that_there_is_not_is_refused_with_those_that_there_are(
    attest: Attest, name: str, said: str
) -> None:
    ran = attest("policy", "template", name)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_every_page_is_listed_by_name_and_title(attest: Attest) -> None:
    ran = attest("docs")
    assert ran.code == 0
    names = [path.relative_to(REPOSITORY / "docs") for path in (REPOSITORY / "docs").rglob("*.md")]
    assert {line.split()[0] for line in ran.out.splitlines()} == {path.with_suffix("").as_posix() for path in names}
    listed = attest("docs", "--json").document
    assert {"name": "cli", "title": "The command line"} in listed["pages"]


@pytest.mark.parametrize("name", ["cli", "cli.md", "docs/cli.md"])
def test_a_page_is_printed_as_it_is_written(attest: Attest, name: str) -> None:
    text = (REPOSITORY / "docs/cli.md").read_text()
    assert attest("docs", name).out == text
    assert attest("docs", name, "--json").document["text"] == text


def test_a_page_that_there_is_not_is_refused(attest: Attest) -> None:
    for line, said in (
        (("docs", "geting-started"), "did you mean 'getting-started'?"),
        (("docs", "zzzzzz"), "no page is called"),
        (("docs", "../README"), "no page is called"),
        (("docs", "cli", "--serve"), "omit PAGE"),
    ):
        ran = attest(*line)
        assert (ran.code, ran.out) == (2, "")
        assert said in ran.err


def test_a_part_of_a_page_is_printed_alone(attest: Attest) -> None:
    section = attest("docs", "cli#exit-codes").out
    assert section.startswith("## Exit codes\n")
    assert "## `attest docs`" not in section
    assert section in (REPOSITORY / "docs/cli.md").read_text() + "\n"
    shown = attest("docs", "checks#snp.root")
    assert shown.out.startswith(
        "# snp.root\n\n- **Demand**: The chain ends at a pinned key of AMD.\n- **Defined by**: "
    )
    assert attest("docs", "checks#snp.root", "--json").document["text"] == shown.out
    refused = attest("docs", "checks#no.such.check")
    assert (refused.code, refused.out) == (2, "")
    assert "has no part 'no.such.check'" in refused.err


@pytest.mark.parametrize(
    ("check_id", "demand"),
    [
        ("tdx.tcb", "A TCB level of Intel fits this platform"),
        ("sgx.tcb", "A TCB level of Intel fits this platform"),
        (
            "policy.snp.guest_policy.debug",
            "It must be true, or false, as the policy demands: the host may debug",
        ),
        ("policy.snp.platform_info.of_tomorrow", "The platform's property NAME must be accepted by the policy"),
        ("policy.of_tomorrow", "NAME must be accepted by the policy"),
    ],
)
def test_a_check_without_a_row_of_its_own_has_the_nearest(attest: Attest, check_id: str, demand: str) -> None:
    shown = attest("docs", f"checks#{check_id}").out
    assert shown.startswith(f"# {check_id}\n")
    assert f"- **Demand**: {demand}" in shown


def test_every_check_that_code_writes_out_has_its_part() -> None:
    text = pages()["checks"].text
    known = {*checks.clauses(), *checks.EXTRA}
    assert len(known) > 60
    assert {check_id for check_id in known if part_of(text, check_id) is None} == set()


def test_a_failed_check_names_the_part_of_the_documentation_that_explains_it(attest: Attest, files: Files) -> None:
    ran = attest("verify", files.extended, "--nonce-text", "question", "--offline", "--at", "2026-06-01T00:00:00Z")
    assert ran.code == 4
    (named,) = re.findall(r"attest docs (checks#\S+)", ran.out)
    assert named == "checks#snp.root"
    assert attest("docs", named).code == 0
    passed = attest(
        *("verify", files.extended, "--nonce-text", "question", "--offline", "--at", "2026-06-01T00:00:00Z"),
        *("--allow-simulated", "--verbose"),
    )
    assert (passed.code, "attest docs" in passed.out) == (0, False)


def test_links_between_pages_hold_in_a_browser() -> None:
    files = documentation_files(version="1.2.3")
    assert {f"/docs/{name}.md" for name in pages()} <= files.keys()
    broken = []
    for path, file in files.items():
        if file.media_type.startswith("text/html"):
            for target in re.findall(r'href="([^"#:]+)(?:#[^"]*)?"', file.body.decode()):
                absolute = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
                if absolute not in files and not absolute[1:].startswith(IN_THE_REPOSITORY_ALONE):
                    broken.append(f"{path}: {target}")
    assert broken == []


def test_headings_have_the_names_that_links_use() -> None:
    files = documentation_files(version="1.2.3")
    missing = []
    for path in (one for one in files if one.endswith(".md")):
        html = files[path].body.decode()
        for target, anchor in re.findall(r'href="([^"#:]*)#([^"]+)"', html):
            absolute = posixpath.normpath(posixpath.join(posixpath.dirname(path), target)) if target else path
            if absolute in files and f'id="{anchor}"' not in files[absolute].body.decode():
                missing.append(f"{path}: {target}#{anchor}")
    assert missing == []


def test_a_page_runs_no_script_and_loads_nothing_from_elsewhere() -> None:
    for file in documentation_files(version="1.2.3").values():
        if file.media_type.startswith("text/html"):
            assert "<script" not in file.body.decode()
            assert file.headers["content-security-policy"].startswith("default-src 'none';")


@pytest.mark.loopback
def test_the_documentation_is_served_on_the_loopback_address() -> None:
    with served(page_server(documentation_files(version="1.2.3"), port=0)) as url:
        contents = httpx.get(url, trust_env=False)
        assert 'href="docs/cli.md"' in contents.text
        assert "attest 1.2.3" in contents.text
        page = httpx.get(f"{url}docs/cli.md", trust_env=False)
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "<table>" in page.text
        schema = httpx.get(f"{url}docs/attest-policy.schema.json", trust_env=False)
        assert schema.headers["content-type"] == "application/json"
        assert httpx.get(f"{url}docs/../pyproject.toml", trust_env=False).status_code == 404
