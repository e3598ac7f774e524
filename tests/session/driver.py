"""``attest`` in a process of its own, on a machine whose kernel is a test's."""

import sys
from datetime import timedelta
from pathlib import Path

from attest.cli.main import cli
from attest.clock import this_second
from attest_simulator import SimulatedGuest
from attest_simulator.machines import SimulatedMachine
from tests.collect.fake_machine import snp_machine

__all__ = ["main"]


def main() -> None:
    root, *arguments = sys.argv[1:]
    guest = SimulatedMachine.of("snp", certified_from=this_second() - timedelta(days=7)).cpu
    assert isinstance(guest, SimulatedGuest)
    sys.exit(cli.main(arguments, standalone_mode=False, obj=snp_machine(Path(root), guest).access))


if __name__ == "__main__":
    main()
