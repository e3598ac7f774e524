"""Event logs beside evidence: page and Python verifier say the same of every boot, and of every log that is spoiled."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest

from attest_simulator.intel.eventlog import LogEntry
from attest_simulator.revocation_lists import simulated_crl
from attest_simulator.tpm_log import extended, replayed_pcrs, startup_locality, typical_tpm_boot, write_tpm_log
from tests.evidence.azure.made import CHIP, NONCE
from tests.evidence.azure.test_event_log import booted
from tests.page.browser import Question, Verifier
from tests.page.reference import answer, differences
from tests.samples import AT

pytestmark = pytest.mark.loopback
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
LOGGED = FIXTURES / "tdx" / "td-v4-eventlog"
MOMENT = AT.isoformat().replace("+00:00", "Z")
GRUB = typical_tpm_boot(command_line="/vmlinuz quiet", kernel=b"kernel")
STUB = typical_tpm_boot(loader="stub", command_line="root=/dev/sda1 \u00fc", secure_boot=False)
BOOTS: dict[str, tuple[LogEntry, ...]] = {
    "GRUB": GRUB,
    "a stub": STUB,
    "a locality": (startup_locality(3), *GRUB),
    "a locality too late": (*GRUB, startup_locality(3)),
    "two localities": (startup_locality(3), startup_locality(3), *GRUB),
    "a locality of no kind": (startup_locality(2), *GRUB),
    "the loader alone": tuple(entry for entry in GRUB if entry.index > 7),
    "Secure Boot twice": (*(entry for entry in GRUB if entry.index == 7), *GRUB),
    "nothing": (),
}


class _Asked:
    """Questions about machines with logs."""

    def __init__(self) -> None:
        leaf, ask, ark = CHIP.certificates()
        crl = simulated_crl(CHIP.product, at=AT)
        self.files: dict[str, bytes] = {"leaf": leaf, "ask": ask, "ark": ark, "crl": crl}
        self.questions: dict[str, Question] = {}

    def vm(self, name: str, evidence: bytes, log: bytes, *, tolerant: bool = False) -> None:
        """A VM of Azure's on SEV-SNP, with the log of its TPM."""
        self.files |= {f"{name}, evidence": evidence, f"{name}, log": log}
        self.questions[name] = Question(
            input=[f"{name}, evidence"],
            at=MOMENT,
            endorsements=["leaf", "ask", "ark", "crl"],
            nonce=NONCE.hex(),
            event_log=f"{name}, log",
            unchecked={"eventlog": "what the system extended"} if tolerant else {},
            anchors="simulation",
        )

    def td(self, name: str, log: bytes) -> None:
        """A TD with its CCEL table."""
        collateral = (FIXTURES / "intel-collateral" / "tdx.json").read_bytes()
        self.files |= {"collateral": collateral, "a TD": (LOGGED / "quote.bin").read_bytes(), name: log}
        self.questions[name] = Question(
            input=["a TD"], at="2026-06-01T00:00:00Z", endorsements=["collateral"], event_log=name, anchors="simulation"
        )

    def codes(self, page: Verifier) -> dict[str, str]:
        """Ask both, demand that they agree, and return `verified` or the code of the refusal by the question's name."""
        page.hold(self.files)
        answers = page.ask_all(self.questions.values())
        pairs = list(zip(self.questions.items(), answers, strict=True))
        wrong = {
            name: found for (name, question), got in pairs if (found := differences(answer(question, self.files), got))
        }
        assert wrong == {}
        return {name: got["error"]["code"] if got["error"] else "verified" for (name, _), got in pairs}


def _spoiled(log: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Another bit or byte, a byte more or less, or an end too early; the header as often as all that is behind it."""
    chance = Random(seed)
    for _ in range(count):
        data = bytearray(log)
        at = chance.randrange(chance.choice((80, len(data))))
        match chance.randrange(5):
            case 0:
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                data[at] = chance.choice((0, 1, 3, 4, 0x0B, 0x0C, 0xFF))
            case 2:
                del data[at]
            case 3:
                data.insert(at, chance.randrange(256))
            case _:
                del data[at:]
        yield bytes(data)


def test_the_log_of_a_tpm_says_of_each_boot_what_python_says(in_browser: Verifier) -> None:
    asked = _Asked()
    for name, boot in BOOTS.items():
        asked.vm(name, booted(boot).json, write_tpm_log(boot))
        asked.vm(f"another boot than {name}", booted(GRUB).json, write_tpm_log(boot), tolerant=True)
    for index in (0, 7, 8, 10, 14):
        changed = booted(GRUB, changed={index: bytes(range(32))}).json
        asked.vm(f"PCR{index} extended since", changed, write_tpm_log(GRUB))
        asked.vm(f"PCR{index} extended since, unchecked", changed, write_tpm_log(GRUB), tolerant=True)
    for words in (["os-separator"], ["enter-initrd", "leave-initrd"], ["enter-initrd", "ready"]):
        for index in (7, 8, 11):
            value = replayed_pcrs(GRUB)[index]
            for word in words:
                value = extended(value, sha256(word.encode()).digest())
            vm = booted(GRUB, changed={index: value}).json
            asked.vm(f"PCR{index} and {' and '.join(words)}", vm, write_tpm_log(GRUB))
    codes = asked.codes(in_browser)
    assert codes["GRUB"] == codes["a stub"] == codes["a locality"] == "verified"
    assert codes["a locality too late"] == codes["two localities"] == "eventlog-malformed"
    assert set(codes.values()) >= {"verified", "eventlog-malformed", "eventlog-register-mismatch"}


def test_a_spoiled_log_ends_in_the_page_as_in_python(in_browser: Verifier) -> None:
    asked = _Asked()
    vm, log = booted(GRUB).json, write_tpm_log(GRUB)
    for number, spoiled in enumerate(_spoiled(log, 50, 1)):
        asked.vm(f"TPM {number}", vm, spoiled, tolerant=number % 2 == 1)
    log = (LOGGED / "eventlog.bin").read_bytes()
    for number, spoiled in enumerate(_spoiled(log, 50, 2)):
        asked.td(f"TD {number}", spoiled)
    assert set(asked.codes(in_browser).values()) >= {
        "eventlog-malformed",
        "eventlog-data-mismatch",
        "eventlog-register-mismatch",
    }
