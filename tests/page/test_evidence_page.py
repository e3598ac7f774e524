"""The page that checks files, without a service: verdict, policy, comparison and links, and nothing leaves it."""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_socket
from click.testing import CliRunner
from playwright.sync_api import BrowserContext

from attest.cli.main import cli
from attest_simulator.guest import SimulatedGuest
from attest_simulator.machines import SimulatedMachine
from tests.page.browser import Verifier
from tests.page.evidence_page import MOMENT, NONCE, OTHER, FilesVisit, digest, files_of, open_page
from tests.page.threaded import expect
from tests.page.visits import violations

pytestmark = pytest.mark.loopback
RECORDED = "chosen in the page: there is no nonce"


@pytest.fixture(scope="module")
def machine() -> SimulatedMachine:
    return SimulatedMachine.of("snp", gpus=1)


@pytest.fixture(scope="module")
def files(machine: SimulatedMachine) -> dict[str, bytes]:
    return files_of(machine)


@pytest.fixture(scope="module")
def opened(in_browser: Verifier) -> Iterator[tuple[BrowserContext, str]]:
    pytest_socket.enable_socket()
    with open_page(in_browser, viewport={"width": 390, "height": 844}) as found:
        yield found


@pytest.fixture
def visit(opened: tuple[BrowserContext, str]) -> Iterator[FilesVisit]:
    context, url = opened
    found = FilesVisit(context, url)
    found.ready()
    yield found
    assert [one for one in found.asked if not one.startswith(f"GET {url}")] == []
    found.page.close()


def older(machine: SimulatedMachine) -> SimulatedMachine:
    """The same machine with older microcode, whose key is another one."""
    cpu = machine.cpu
    assert isinstance(cpu, SimulatedGuest)
    tcb = replace(cpu.chip.reported_tcb, microcode=cpu.chip.reported_tcb.microcode - 1)
    chip = replace(cpu.chip, reported_tcb=tcb, current_tcb=tcb, committed_tcb=tcb)
    return replace(machine, cpu=replace(cpu, chip=chip))


def python_says(folder: Path, command: str, files: Mapping[str, bytes], *options: str) -> dict[str, Any]:
    """Ask the command line about the same files."""
    for name, data in files.items():
        (folder / name).write_bytes(data)
    endorsements = [
        word for name in files if name != "evidence.json" for word in ("--endorsements", str(folder / name))
    ]
    words = [
        command,
        str(folder / "evidence.json"),
        *endorsements,
        "--offline",
        "--allow-simulated",
        "--json",
        *options,
    ]
    done = CliRunner().invoke(cli, words)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# -- the verdict


def test_dropped_files_get_the_verdict_that_the_command_line_gives(
    visit: FilesVisit, files: dict[str, bytes], tmp_path: Path
) -> None:
    visit.judges(files)
    told = python_says(tmp_path, "verify", files, "--nonce", NONCE.hex(), "--at", MOMENT)
    assert visit.text("#word") == "Simulated, and not yet accepted by you"
    assert visit.page.locator("#facts > li").count() == 5
    expect(visit.page.locator("#chain svg")).to_be_attached()
    assert visit.page.locator("#checks > li").count() == len(told["checks"])
    items = json.loads(str(visit.page.text_content("#claims")))
    assert [(one["name"], one["claims"]) for one in items] == [(one["name"], one["claims"]) for one in told["items"]]
    kinds = [line.split(": ")[1].split(",")[0] for line in visit.page.locator("#chosen > li").all_inner_texts()]
    assert kinds == ["evidence"] + ["endorsements of a maker"] * (len(files) - 1)
    visit.picture("evidence-unknown-390")


def test_the_shown_command_repeats_the_check(visit: FilesVisit, files: dict[str, bytes], tmp_path: Path) -> None:
    named = {"it's evidence.json": files["evidence.json"]} | {k: v for k, v in files.items() if k != "evidence.json"}
    visit.judges(named)
    command = str(visit.page.text_content("#command"))
    assert "'it'\\''s evidence.json'" in command
    assert command.endswith(f"--nonce {NONCE.hex()} --at {MOMENT} --offline --allow-simulated")
    assert command.startswith("attest verify ")


def test_evidence_with_another_nonce_is_refused_as_the_command_line_refuses_it(
    visit: FilesVisit, files: dict[str, bytes], tmp_path: Path
) -> None:
    visit.asks_for(nonce="00" * 32)
    visit.add(files)
    visit.shows("refused")
    told = python_says(tmp_path, "verify", files, "--nonce", "00" * 32, "--at", MOMENT)
    assert visit.code == told["error"]["code"]
    assert "Compare the nonce" in visit.text("#failure")
    assert "Nothing left this browser." in visit.text("#failure")
    visit.picture("evidence-refused-390")


@pytest.mark.parametrize("name", ["amd.crl", "nvidia-rim-0.xml", "nvidia-status-3.der"])
def test_a_damaged_endorsement_is_refused_as_the_command_line_refuses_it(
    name: str, visit: FilesVisit, files: dict[str, bytes], tmp_path: Path
) -> None:
    data = bytearray(files[name])
    data[len(data) // 2] ^= 1
    damaged = files | {name: bytes(data)}
    visit.judges(damaged, "refused")
    told = python_says(tmp_path, "verify", damaged, "--nonce", NONCE.hex(), "--at", MOMENT)
    assert visit.code == told["error"]["code"]


def test_evidence_without_its_endorsements_says_what_is_missing(visit: FilesVisit, files: dict[str, bytes]) -> None:
    visit.judges({"evidence.json": files["evidence.json"]}, "refused")
    assert "are not among the files" in visit.text("#why")
    assert visit.code.endswith("-missing")
    # What is missing comes later, and the same evidence is checked again.
    visit.add({name: data for name, data in files.items() if name != "evidence.json"})
    visit.shows("unknown")


def test_without_a_nonce_nothing_is_called_fresh_and_only_a_stated_reason_accepts_it(
    visit: FilesVisit, files: dict[str, bytes], tmp_path: Path
) -> None:
    visit.asks_for()
    visit.add(files)
    visit.shows("unknown")
    assert "was not compared" in visit.text("#why")
    assert "freshness-not-evaluated" in visit.text("#warnings")
    visit.page.click("#accept")
    visit.page.click("#agree")
    expect(visit.page.locator("#policy-told")).to_contain_text("policy-invalid")
    visit.asks_for(recorded=True)
    visit.accept()
    assert "was not compared" in visit.text("#why")
    with visit.page.expect_download() as saved:
        visit.page.click("#export")
    policy = tmp_path / "saved.json"
    policy.write_bytes(Path(saved.value.path()).read_bytes())
    assert "unchecked: chosen" not in policy.read_text()
    options = ("--policy", str(policy), "--at", MOMENT)
    assert python_says(tmp_path, "appraise", files, *options)["outcome"] == "not-affirmed"
    relaxed = python_says(tmp_path, "appraise", files, *options, "--unchecked", f"freshness={RECORDED}")
    assert relaxed["outcome"] == "affirmed"


def test_files_of_no_known_form_are_named_and_not_used(visit: FilesVisit, files: dict[str, bytes]) -> None:
    visit.add({"notes.txt": b"not evidence at all", "empty.bin": b"", "picture.png": b"\x89PNG\r\n\x1a\n" + bytes(64)})
    expect(visit.page.locator("#chosen > li")).to_have_count(3)
    assert visit.page.locator("#chosen > li.refused").count() == 3
    assert "there is no evidence among these files" in visit.text("#waiting").lower()
    assert visit.page.locator("#status").is_hidden()
    visit.judges(files)
    visit.page.click('button[aria-label="Remove notes.txt"]')
    expect(visit.page.locator("#files-told")).to_have_text("notes.txt was removed.")
    assert visit.page.evaluate("document.activeElement.id") == "file"


def test_evidence_that_cannot_be_read_is_refused_and_not_left_out(visit: FilesVisit, files: dict[str, bytes]) -> None:
    visit.judges(files | {"evidence.json": files["evidence.json"][:-20]}, "refused")
    assert re.fullmatch(r"[a-z-]+", visit.code)
    visit.page.reload()
    # Two machines are no evidence of one.
    visit.judges(files | {"second.json": files["evidence.json"] + b"\n"}, "refused")
    assert visit.code == "evidence-ambiguous"


def test_a_huge_file_is_refused_before_it_is_read(visit: FilesVisit, files: dict[str, bytes]) -> None:
    visit.ready()
    visit.page.evaluate(
        """() => {
            const given = new DataTransfer();
            given.items.add(new File([new Uint8Array(16 * 1024 * 1024 + 1)], "huge.json"));
            File.prototype.arrayBuffer = () => { throw new Error("read"); };
            document.querySelector("#file").files = given.files;
            document.querySelector("#file").dispatchEvent(new Event("change"));
        }"""
    )
    expect(visit.page.locator("#chosen > li")).to_contain_text("not used: larger than 16 MiB")


def test_files_that_are_dropped_are_taken(visit: FilesVisit, files: dict[str, bytes]) -> None:
    visit.asks_for(nonce=NONCE.hex())
    given = [[name, base64.b64encode(data).decode()] for name, data in files.items()]
    visit.page.evaluate(
        """(files) => {
            const given = new DataTransfer();
            const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
            for (const [name, text] of files) given.items.add(new File([bytesOf(text)], name));
            const dropped = new DragEvent("drop", { dataTransfer: given, bubbles: true, cancelable: true });
            document.querySelector("#drop").dispatchEvent(dropped);
        }""",
        given,
    )
    visit.shows("unknown")


@pytest.mark.parametrize(("nonce", "at"), [("xyz", ""), ("00" * 65, ""), ("", "yesterday"), ("", "2026-06-10")])
def test_a_question_that_no_evidence_could_answer_is_not_taken(nonce: str, at: str, visit: FilesVisit) -> None:
    visit.asks_for(nonce=nonce, at=at)
    expect(visit.page.locator("#asked-told")).to_contain_text("Not taken")


# -- policies


def test_a_policy_among_the_files_is_applied_as_the_command_line_applies_it(
    visit: FilesVisit, machine: SimulatedMachine, files: dict[str, bytes], tmp_path: Path
) -> None:
    policy = machine.policy()
    visit.asks_for(nonce=NONCE.hex())
    visit.add(files | {"policy.json": policy})
    visit.shows("trusted")
    saved = tmp_path / "p.json"
    saved.write_bytes(policy)
    options = ("--policy", str(saved), "--nonce", NONCE.hex(), "--at", MOMENT)
    assert python_says(tmp_path, "appraise", files, *options)["outcome"] == "affirmed"
    other = json.loads(policy)
    other["reference_values"]["workload"]["values"] = ["00" * 48]
    visit.add({"other.json": json.dumps(other).encode()})
    visit.shows("refused")
    saved.write_text(json.dumps(other))
    assert python_says(tmp_path, "appraise", files, *options)["outcome"] == "not-affirmed"
    visit.add({"bad.json": b'{"schema": "attest.policy/1", "name": "x"}'})
    # From red back to green leads only the typed word, also for a policy among the files.
    visit.page.fill("#typed", "accept")
    visit.page.click("#agree")
    expect(visit.page.locator("#policy-told")).to_contain_text("policy-invalid")


def test_a_policy_made_from_files_is_met_by_them_and_not_by_an_older_machine(
    visit: FilesVisit, machine: SimulatedMachine, files: dict[str, bytes]
) -> None:
    visit.judges(files)
    visit.accept()
    assert visit.text("#word") == "Simulated: meets your policy"
    visit.picture("evidence-trusted-390")
    visit.page.click('button[aria-label="Remove evidence.json"]')
    expect(visit.page.locator("#status")).to_be_hidden()
    visit.add(files_of(older(machine)))
    visit.shows("refused")
    visit.page.click("#accept")
    expect(visit.page.locator("#confirm .lowered").first).to_contain_text("older than what you accepted")


# -- comparison


def test_two_pieces_of_evidence_are_compared_in_words(
    visit: FilesVisit, machine: SimulatedMachine, files: dict[str, bytes]
) -> None:
    visit.judges(files)
    visit.add(files, at="#other")
    expect(visit.page.locator("#compared")).to_contain_text("Both are the same evidence.")
    visit.add(files_of(older(machine), OTHER), at="#other")
    expect(visit.page.locator("#changes > li")).to_have_count(1)
    assert "Firmware of the AMD processor" in visit.text("#changes")
    assert re.search(r"The second is older: microcode \d+ → \d+\.", visit.text("#changes"))
    assert "They come from the same chip." in visit.text("#compared")
    visit.page.evaluate("document.querySelector('#rest').open = true")
    assert "Report data: nonce and key" in visit.text("#rest")
    assert "measurement" not in visit.text("#rest")
    visit.picture("evidence-compared-390", at="#comparing")
    cpu = machine.cpu
    assert isinstance(cpu, SimulatedGuest)
    other = replace(machine, cpu=replace(cpu, measurement=b"\x07" * 48))
    visit.add(files_of(other), at="#other")
    expect(visit.page.locator("#changes")).to_contain_text("The second has another value.")
    assert "Software of the machine" in visit.text("#changes")


def test_refused_evidence_is_compared_with_nothing(visit: FilesVisit, files: dict[str, bytes]) -> None:
    visit.judges(files)
    visit.add({"other.json": files["evidence.json"].replace(b"A", b"B", 1)}, at="#other")
    expect(visit.page.locator("#compared")).to_contain_text("Nothing is compared")
    visit.add({"crl": files["amd.crl"]}, at="#other")
    expect(visit.page.locator("#compared")).to_contain_text("there is no evidence among these files")


# -- links


def test_a_link_names_digests_and_holds_neither_evidence_nor_nonce(
    visit: FilesVisit, machine: SimulatedMachine, files: dict[str, bytes], opened: tuple[BrowserContext, str]
) -> None:
    context, url = opened
    policy = json.loads(machine.policy())
    visit.asks_for(nonce=NONCE.hex())
    visit.add(files | {"policy.json": json.dumps(policy).encode()})
    visit.shows("trusted")
    visit.page.click("#make-link")
    link = visit.page.input_value("#check-link")
    assert re.fullmatch(
        re.escape(url) + r"#files=[0-9a-f]{64}(,[0-9a-f]{64})*&policy-sha256=[0-9a-f]{64}&at=" + MOMENT, link
    )
    assert NONCE.hex() not in link
    assert all(digest(data) in link for data in files.values())
    other = FilesVisit(context, link)
    expect(other.page.locator("#named li")).to_have_count(len(files) + 1)
    other.picture("evidence-link-390")
    # Files that it does not name are not used, and nothing is checked before all of them are here.
    other.add({"evidence.json": files_of(machine, OTHER)["evidence.json"]})
    expect(other.page.locator("#files-told")).to_contain_text("is none of the files that the link names")
    other.add({"renamed.json": files["evidence.json"]})
    expect(other.page.locator("#waiting")).to_contain_text("Nothing was checked yet")
    assert other.page.locator("#status").is_hidden()
    other.add({name: data for name, data in files.items() if name != "evidence.json"})
    expect(other.page.locator("#named li").filter(has_text="missing")).to_have_count(1)
    assert other.page.locator("#status").is_hidden()
    # Another policy than the named one does not do; its spelling does not matter.
    other.add({"policy.json": json.dumps(policy | {"version": 2}).encode()})
    expect(other.page.locator("#files-told")).to_contain_text("This is not the policy that the link names")
    assert other.page.locator("#status").is_hidden()
    other.add({"policy.json": json.dumps(policy, indent=3).encode()})
    expect(other.page.locator("#named")).to_contain_text("These are the very files that the link names.")
    # The moment is the link's; the nonce is for the person who chose it.
    other.shows("refused")
    assert f"As of {MOMENT}." in other.text("#when")
    other.asks_for(nonce=NONCE.hex())
    other.shows("trusted")
    other.page.close()


@pytest.mark.parametrize(
    "behind",
    ["files=", "files=abc&at=" + MOMENT, f"files={'0' * 64}", f"files={'0' * 64},{'0' * 64}&at={MOMENT}",
     f"files={'0' * 64}&at={MOMENT}&evidence=1"],
)  # fmt: skip
def test_a_damaged_link_is_ignored(behind: str, opened: tuple[BrowserContext, str]) -> None:
    context, url = opened
    visit = FilesVisit(context, f"{url}#{behind}")
    expect(visit.page.locator("#files-told")).to_contain_text("The link is damaged")
    assert visit.page.url == url
    visit.page.close()


def test_a_link_may_be_ignored(opened: tuple[BrowserContext, str], files: dict[str, bytes]) -> None:
    context, url = opened
    visit = FilesVisit(context, f"{url}#files={'0' * 64}&at=2020-01-01T00:00:00Z")
    visit.page.click("#ignore-link")
    visit.judges(files)
    assert visit.page.url == url
    visit.page.close()


# -- for everybody


def test_it_works_by_keyboard_alone(visit: FilesVisit, files: dict[str, bytes]) -> None:
    visit.judges(files)
    reached: list[str] = []
    for _ in range(60):
        visit.page.keyboard.press("Tab")
        reached.append(str(visit.page.evaluate("document.activeElement.id || document.activeElement.tagName")))
        if reached[-1] == "accept":
            break
    assert reached[-1] == "accept"
    visit.page.keyboard.press("Enter")
    visit.page.keyboard.press("Tab")
    visit.page.keyboard.press("Enter")
    visit.shows("trusted")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_nothing_is_cut_off(
    scheme: Any,  # noqa: ANN401  a literal of the driver
    visit: FilesVisit,
    machine: SimulatedMachine,
    files: dict[str, bytes],
) -> None:
    visit.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    visit.judges(files | {"notes.txt": b"no evidence"})
    visit.add(files_of(older(machine), OTHER), at="#other")
    expect(visit.page.locator("#changes > li")).to_have_count(1)
    visit.page.click("#make-link")
    for width, height in ((390, 844), (1440, 900)):
        visit.page.set_viewport_size({"width": width, "height": height})
        visit.picture(f"evidence-whole-{scheme}-{width}", whole=True)
        visit.page.evaluate("document.querySelectorAll('#asking, #each, #rest').forEach((one) => (one.open = true))")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(visit.page) == []


@pytest.mark.parametrize(
    ("language", "title", "state"),
    [
        ("de-CH", "Ist dieser Nachweis echt?", "Simuliert, und von Ihnen noch nicht angenommen"),
        ("fr", "Cette preuve est-elle authentique ?", "Simulée, et pas encore acceptée par vous"),
    ],
)
def test_it_speaks_german_and_french(
    language: str, title: str, state: str, in_browser: Verifier, files: dict[str, bytes]
) -> None:
    with open_page(in_browser, locale=language) as (context, url):
        visit = FilesVisit(context, url)
        visit.judges(files)
        assert visit.text("h1") == title
        assert visit.text("#word") == state
        visit.picture(f"evidence-{language[:2]}-1280")


def test_without_a_script_it_says_that_nothing_was_checked(in_browser: Verifier) -> None:
    with open_page(in_browser, java_script_enabled=False) as (context, url):
        page = context.new_page()
        page.goto(url)
        assert "Nothing was checked" in page.locator("body").inner_text()
        assert page.locator("input:visible, button:visible").count() == 0
