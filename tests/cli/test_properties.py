"""For any bytes at all a command gives a verdict or a documented error: no traceback, no exit 70, never a pass."""

import json
from pathlib import Path

from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attest.cli.main import cli
from attest.evidence.snp.tcb import SnpProduct
from attest.terminal.visible_text import visible
from attest_simulator import SimulatedChip, SimulatedGuest

REPORT = SimulatedGuest(chip=SimulatedChip.of(SnpProduct.GENOA)).extended_report(bytes(64))
LAB = ["--offline", "--allow-simulated", "--at", "2026-06-01T00:00:00Z"]

anything = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.builds(
        lambda at, bits: REPORT[:at] + bytes([bits]) + REPORT[at + 1 :], st.integers(0, 1400), st.integers(0, 255)
    ),
    st.integers(0, len(REPORT)).map(lambda end: REPORT[:end]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=10),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode()),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=anything)
def test_verify(tmp_path: Path, data: bytes) -> None:
    ran = CliRunner().invoke(cli, ["verify", "-", *LAB, "--json"], input=data)
    assert ran.exit_code in ({0, 3, 4, 5} if REPORT.startswith(data[:1]) else {3, 4, 5})
    document = json.loads(ran.stdout)
    assert document["outcome"] == ("verified" if ran.exit_code == 0 else "refused")
    if ran.exit_code == 0:
        assert data[:0x2A0] == REPORT[:0x2A0]


@given(data=anything)
def test_appraise_page(data: bytes) -> None:
    ran = CliRunner().invoke(cli, ["appraise", "-", *LAB], input=data)
    assert ran.exit_code in {1, 3, 4, 5}
    assert "Traceback" not in ran.output


@given(data=anything)
def test_inspect(data: bytes) -> None:
    ran = CliRunner().invoke(cli, ["inspect", "-"], input=data)
    assert ran.exit_code in {0, 3, 4, 5}
    assert "\x1b" not in ran.output


@given(data=anything)
def test_policy(data: bytes) -> None:
    assert CliRunner().invoke(cli, ["policy", "check", "-"], input=data).exit_code == 2


@given(data=anything)
def test_bundles(data: bytes) -> None:
    assert CliRunner().invoke(cli, ["endorsements", "check", "-"], input=data).exit_code == 5


@given(st.text())
def test_whatever_is_shown_prints_and_printable_text_stays(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable()
    assert shown == text or not text.isprintable()
