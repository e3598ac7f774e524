"""``attest`` in a process of its own, on a machine whose kernel is a test's."""

import sys
from pathlib import Path

from attest.cli.main import cli
from attest.simulator import SimulatedGuest
from tests.collect.fake_machine import snp_machine
from tests.session.serving import machine

__all__ = ["main"]


def main() -> None:
    root, *arguments = sys.argv[1:]
    guest = machine("snp").cpu
    assert isinstance(guest, SimulatedGuest)
    sys.exit(cli.main(arguments, standalone_mode=False, obj=snp_machine(Path(root), guest).access))


if __name__ == "__main__":
    main()
