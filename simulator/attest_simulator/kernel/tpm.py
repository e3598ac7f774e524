"""The virtual TPM of an Azure VM for programs that open the device: a software TPM (swtpm) in the VM's state.

The device is a pseudo terminal, so that it is a character device to every library. Commands pass through this process,
which is the VM's paravisor: once a program has written user data, the TPM has a report with them. When the last program
closes the device, what it left in the TPM's memory is dropped, as ``/dev/tpmrm0`` does.

Spec: specs/azure-cvm.md, sections 2, 5 and 8.
"""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import termios
import time
import tty
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from attest.collect.azure import AK_HANDLE, REPORT_INDEX, USER_DATA_INDEX
from attest_simulator.azure import SimulatedAzureVm
from attest_simulator.intel.eventlog import SHA1, SHA256, SHA384
from attest_simulator.kernel import tpm_commands as commands
from attest_simulator.kernel.tpm_commands import (
    COMMAND_SIZE,
    HEADER_BYTES,
    MAX_MESSAGE_BYTES,
    TpmRefusedError,
    message_size,
)

SWTPM: Final = "swtpm"
REPORT_BYTES: Final = 2048
"""Size of the report's index: the largest of a swtpm. Azure's has 2,600 bytes today, and had these before."""
_USER_DATA_BYTES: Final = 64
_BANKS: Final = (SHA1, SHA256, SHA384)
_KEPT_IN_MEMORY: Final = (0x80000000, 0x02000000)
"""First handles of objects and of sessions."""
_ANSWER_SECONDS: Final = 60.0
_CLOSED_SECONDS: Final = 0.005
"""Time between two looks at a device that no program has open."""


def require_swtpm() -> None:
    """Require the software TPM.

    Raises:
        OSError: it is missing.
    """
    if shutil.which(SWTPM) is None:
        raise OSError("no software TPM (swtpm) to simulate the VM's; on Debian, install swtpm")


class TpmDevice:
    """A device for one program after another: ``path`` is its place."""

    def __init__(self) -> None:
        """Make the device; nothing answers before ``serve``."""
        self._ours, theirs = os.openpty()
        try:
            tty.setraw(theirs)
            self.path = Path(os.ttyname(theirs))
        finally:
            os.close(theirs)

    def serve(self, answer: Callable[[bytes], bytes], closed: Callable[[], None]) -> None:
        """Answer commands; after the last program has closed the device, call ``closed``."""
        waiting = select.poll()
        waiting.register(self._ours, select.POLLIN)
        received, used = b"", False
        while True:
            ((_, event),) = waiting.poll()
            if event & select.POLLIN:
                received, used = received + os.read(self._ours, MAX_MESSAGE_BYTES), True
                size = message_size(received)
                if size is not None and not HEADER_BYTES <= size <= MAX_MESSAGE_BYTES:
                    self._send(COMMAND_SIZE)
                    received = b""
                elif size is not None and len(received) >= size:
                    self._send(answer(received[:size]))
                    received = b""
                continue
            if used:
                received, used = b"", False
                self._drop_unread()
                closed()
            time.sleep(_CLOSED_SECONDS)

    def _send(self, answer: bytes) -> None:
        looking = select.poll()
        looking.register(self._ours, 0)
        if looking.poll(0):  # hung up: the program is gone, and the next one must not get its answer
            return
        with suppress(OSError):
            os.write(self._ours, answer)

    def _drop_unread(self) -> None:
        """Drop an answer that no program has read, so that the next one does not get it."""
        theirs = os.open(self.path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        termios.tcflush(theirs, termios.TCIFLUSH)
        os.close(theirs)


class VirtualTpm:
    """The TPM of one VM, which ends with this process."""

    def __init__(self, vm: SimulatedAzureVm, state: Path) -> None:
        """Start it in a directory for its state, and measure the boot of the VM into it.

        Raises:
            OSError: it cannot be started, or ended.
            TpmRefusedError: it refused a command.
        """
        self._vm = vm
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(_ANSWER_SECONDS)
        with theirs:
            arguments = ("--tpm2", "--fd", str(theirs.fileno()), "--tpmstate", f"dir={state}")
            subprocess.Popen(  # noqa: S603  it ends when this process, and so the other end of its socket, is gone
                (SWTPM, "socket", *arguments, "--flags", "not-need-init,startup-clear"),
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._measure_boot()
        self._ak = commands.create_ak(self._transmit, AK_HANDLE)
        commands.define_index(self._transmit, REPORT_INDEX, REPORT_BYTES)
        self._publish(bytes(_USER_DATA_BYTES))

    def answer(self, command: bytes) -> bytes:
        """Answer a command; user data that it writes are in the paravisor's report afterwards."""
        found = self._transmit(command)
        if commands.written_index(command) == USER_DATA_INDEX and not commands.return_code(found):
            with suppress(TpmRefusedError):  # a shorter index, or one that its owner cannot read
                self._publish(commands.read_index(self._transmit, USER_DATA_INDEX, _USER_DATA_BYTES))
        return found

    def drop_memory(self) -> None:
        """Drop objects and sessions that were not made persistent."""
        for first in _KEPT_IN_MEMORY:
            for handle in commands.handles(self._transmit, first):
                with suppress(TpmRefusedError):
                    commands.flush(self._transmit, handle)

    def _measure_boot(self) -> None:
        for entry in self._vm.log:
            digests = {bank: entry.event.digest_of(bank) for bank in _BANKS}
            if any(digests[SHA256]):  # zeros stand for an event that is logged and not measured
                commands.extend(self._transmit, entry.index, digests)

    def _publish(self, user_data: bytes) -> None:
        """Have the paravisor's report name these user data, and this TPM's own key."""
        template = self._vm.host.hcl_template(self._ak, None, user_data=user_data, configuration=self._vm.configuration)
        commands.write_index(self._transmit, REPORT_INDEX, template.to_bytes(size=REPORT_BYTES))

    def _transmit(self, command: bytes) -> bytes:
        self._socket.sendall(command)
        answer = b""
        while (size := message_size(answer)) is None or len(answer) < size:
            more = self._socket.recv(MAX_MESSAGE_BYTES)
            if not more:
                raise OSError("swtpm ended")
            answer += more
        return answer
