"""A confidential VM on Azure made for the test: simulated host and paravisor, and a TPM that is software.

The TPM is one of two: `SoftwareTpm`, written here, whose every answer a test can change; or a real one (`swtpm.py`)
behind the real TSS.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from attest.collect.access import MachineAccess
from attest.collect.azure import AK_HANDLE, REPORT_INDEX, USER_DATA_INDEX
from attest.collect.azure_additions import AzureServices
from attest.collect.azure_host import HostPatience, ThimCertificates
from attest.collect.boot_log import TCG_LOG
from attest.collect.tpm import NvIndex, OpenTpm, Tpm, TpmQuote
from attest.errors import CollectionError
from attest.evidence.tpm.structure import SHA256, ParsedTpmQuote, PcrSelection, bitmap_of
from attest_simulator.azure import SimulatedSnpHost, SimulatedTdxHost, tpm_key
from attest_simulator.azure.hcl import HCL_BYTES
from attest_simulator.intel.certificates import pem_text
from attest_simulator.intel.eventlog import SHA256 as BANK
from attest_simulator.intel.eventlog import LogEntry
from attest_simulator.tpm_log import replayed_pcrs, typical_tpm_boot, write_tpm_log
from tests.collect.fake_machine import FakeMachine, plain_machine

AZURE_TAG = "7783-7084-3265-9085-8269-3286-77"
SNP = SimulatedSnpHost.of()
TDX = SimulatedTdxHost.of()
Host = SimulatedSnpHost | SimulatedTdxHost
MORE = sha256(b"more").digest()
BOOT = typical_tpm_boot()


class Backend(Protocol):
    """A TPM from its owner's side."""

    ak: rsa.RSAPublicKey

    @property
    def open(self) -> OpenTpm:
        """Opens it."""
        ...

    def put(self, index: int, data: bytes | None) -> None:
        """Define an index anew, as long as the data; None leaves it without content."""

    def drop(self, index: int) -> None:
        """Remove an index."""

    def swap_ak(self, *, there: bool) -> None:
        """Put another key in place of the attestation key, or none."""

    def extend(self, index: int, digest: bytes = MORE) -> None:
        """Measure something into a register."""


@dataclass
class SoftwareTpm:
    """Keeps what it is given, and quotes truly, unless a test says otherwise."""

    key: rsa.RSAPrivateKey = field(default_factory=lambda: tpm_key("VM 0", "AK"))
    nv: dict[int, NvIndex] = field(default_factory=dict)
    keys: dict[int, rsa.RSAPrivateKey] = field(default_factory=dict)
    pcrs: list[bytes] = field(default_factory=lambda: list(replayed_pcrs(())))
    errors: dict[str, list[CollectionError]] = field(default_factory=dict)
    """For the next calls of a method."""
    before_pcrs: Callable[[], None] | None = None
    on_write: Callable[[bytes], None] | None = None
    """The paravisor: hears of user data."""
    on_read: Callable[[int], None] | None = None
    quoted_nonce: bytes | None = None
    message: bytes | None = None
    written: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.keys[AK_HANDLE] = self.key
        self.ak = self.key.public_key()

    def open(self, tcti: str) -> Tpm:
        self._perhaps_fail("open")
        return self

    def _perhaps_fail(self, name: str) -> None:
        if self.errors.get(name):
            raise self.errors[name].pop(0)

    def nv_size(self, index: int) -> int | None:
        self._perhaps_fail("nv_size")
        found = self.nv.get(index)
        return None if found is None else found.size

    def read_nv(self, index: int, *, limit: int) -> NvIndex | None:
        self._perhaps_fail("read_nv")
        if self.on_read is not None:
            self.on_read(index)
        found = self.nv.get(index)
        assert found is None or found.size <= limit
        return found

    def write_nv(self, index: int, data: bytes) -> None:
        self._perhaps_fail("write_nv")
        assert index == USER_DATA_INDEX
        self.put(index, data)
        self.written.append(data)
        if self.on_write is not None:
            self.on_write(data)

    def read_key(self, handle: int) -> rsa.RSAPublicKey | None:
        self._perhaps_fail("read_key")
        key = self.keys.get(handle)
        return None if key is None else key.public_key()

    def quote(self, handle: int, nonce: bytes) -> TpmQuote:
        self._perhaps_fail("quote")
        message = ParsedTpmQuote(
            raw=b"",
            qualified_signer=b"\x00\x0b" + bytes(32),
            extra_data=nonce if self.quoted_nonce is None else self.quoted_nonce,
            clock=1,
            reset_count=1,
            restart_count=0,
            safe=True,
            firmware_version=0x2020031200120003,
            selections=(PcrSelection(algorithm=SHA256, bitmap=bitmap_of(tuple(range(24)))),),
            pcr_digest=sha256(b"".join(self.pcrs)).digest(),
        ).to_bytes()
        if self.message is not None:
            message = self.message
        signature = self.keys[handle].sign(message, padding.PKCS1v15(), hashes.SHA256())
        return TpmQuote(message=message, signature=signature)

    def read_pcrs(self) -> tuple[bytes, ...]:
        self._perhaps_fail("read_pcrs")
        if self.before_pcrs is not None:
            self.before_pcrs()
        return tuple(self.pcrs)

    def put(self, index: int, data: bytes | None) -> None:
        self.nv[index] = NvIndex(size=64 if data is None else len(data), data=data)

    def drop(self, index: int) -> None:
        self.nv.pop(index, None)

    def swap_ak(self, *, there: bool) -> None:
        self.keys.pop(AK_HANDLE)
        if there:
            self.keys[AK_HANDLE] = tpm_key("VM 1", "AK")

    def extend(self, index: int, digest: bytes = MORE) -> None:
        self.pcrs[index] = sha256(self.pcrs[index] + digest).digest()


@dataclass
class FakeServices:
    """The host's services, without a network."""

    host: Host = SNP
    error: CollectionError | None = None
    thim: ThimCertificates | None = None
    quote: bytes | None = None
    status: int = 200

    def certificates(self, patience: HostPatience) -> ThimCertificates:
        if self.error is not None:
            raise self.error
        assert isinstance(self.host, SimulatedSnpHost)
        _, *issuers = self.host.guest.chip.certificates()
        honest = ThimCertificates(
            vcek=self.host.vcek(),
            chain_pem=pem_text(issuers).encode(),
            tcb=self.host.guest.chip.current_tcb.to_bytes(),
        )
        return self.thim or honest

    def td_quote(self, td_report: bytes, patience: HostPatience) -> bytes:
        if self.error is not None:
            raise self.error
        assert isinstance(self.host, SimulatedTdxHost)
        return self.host.quote(td_report) if self.quote is None else self.quote

    def answers(self, patience: HostPatience) -> int:
        assert patience.attempts == 1
        if self.error is not None:
            raise self.error
        return self.status


@dataclass
class AzureMachine:
    """One VM.

    Attributes:
        report_bytes: of the index that holds the report; one shorter than today's has the claims of old paravisors,
            which speak of one key.
    """

    machine: FakeMachine
    tpm: Backend
    services: AzureServices
    host: Host
    tcti: str | None = None
    report_bytes: int = HCL_BYTES
    sleep: Callable[[float], None] | None = None
    waited: list[float] = field(default_factory=list)
    clock: float = 0.0

    @property
    def access(self) -> MachineAccess:
        more = replace(self.machine.access, open_tpm=self.tpm.open, azure=self.services, tcti=self.tcti)
        if self.sleep is not None:
            return replace(more, sleep=self.sleep)
        return replace(more, sleep=self._sleep, monotonic=lambda: self.clock)

    def _sleep(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.clock += seconds

    def report(self, user_data: bytes = bytes(64)) -> bytes:
        """What the paravisor says of this TPM."""
        ek = tpm_key("VM 0", "EK").public_key()
        if self.report_bytes == HCL_BYTES:
            return self.host.hcl_report(self.tpm.ak, ek, user_data=user_data)
        return self.host.hcl_template(self.tpm.ak, None, user_data=user_data).to_bytes(size=self.report_bytes)

    def boot(self, entries: Iterable[LogEntry] = BOOT, *, padding: int = 0) -> bytes:
        """Measure a boot into the TPM, and have the kernel keep its log, perhaps with an unused rest."""
        entries = tuple(entries)
        for entry in entries:
            self.tpm.extend(entry.index, entry.event.digest_of(BANK))
        log = write_tpm_log(entries)
        self.machine.has(str(TCG_LOG), log + bytes(padding))
        return log

    def publish(self, user_data: bytes = bytes(64)) -> None:
        """Have the paravisor remake its report."""
        self.tpm.put(REPORT_INDEX, self.report(user_data))


def azure_root(root: Path) -> FakeMachine:
    """The files of a VM on Azure."""
    machine = plain_machine(root)
    machine.has("sys/class/dmi/id/chassis_asset_tag", AZURE_TAG + "\n")
    machine.has("sys/class/dmi/id/sys_vendor", "Microsoft Corporation\n")
    machine.has("dev/tpmrm0")
    return machine


def software_vm(root: Path, host: Host = SNP) -> tuple[AzureMachine, SoftwareTpm, FakeServices]:
    """A VM with the software TPM, whose paravisor answers at once."""
    tpm = SoftwareTpm()
    services = FakeServices(host=host)
    vm = AzureMachine(machine=azure_root(root), tpm=tpm, services=services, host=host)
    tpm.on_write = vm.publish
    vm.publish()
    return vm, tpm, services
