"""Parts that come with another distribution."""

import pytest

from attest.errors import ConfigurationError
from attest.extensions import load_extension
from attest_simulator.cli.simulate import simulate


def test_a_part_is_found_by_its_entry_point() -> None:
    assert load_extension("simulate", group="attest.commands", of="attest-simulator") is simulate


@pytest.mark.parametrize(
    ("name", "group", "of"),
    [
        ("simulate", "attest.commands", "attest-simulator-of-nobody"),
        ("simulate", "attest.commands", "attest-kms"),
        ("simulate", "attest.machines", "attest-simulator"),
        ("simulator", "attest.commands", "attest-simulator"),
    ],
)
def test_what_the_named_distribution_does_not_register_is_missing(name: str, group: str, of: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load_extension(name, group=group, of=of)
    assert refused.value.code == "distribution-missing"
    assert refused.value.hint == f"install {of} of the same version: see 'attest docs installing'"
