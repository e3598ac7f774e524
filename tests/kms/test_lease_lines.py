"""Leases as lines of text."""

import click
import pytest

from kms.cli.releases import show_leases


def test_a_lease_without_a_chip_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    lease = {"lease_id": "1", "key": "k", "version": 1, "state": "live", "tee": "ear", "chip": None, "why": []}
    with click.Context(click.Command("list")):
        show_leases([{**lease, "expires_at": "T"}, {**lease, "expires_at": "T", "chip": "amd:1"}], None)
    first, second = capsys.readouterr().out.splitlines()
    assert (first, second.split()[4]) == ("1  k@1  live        ear  no chip stated  until T", "amd:1")
