"""Detection of the TEE and of the interface for its evidence, in two functions: read, and conclude.

The result selects an interface and nothing else: unlike evidence, a machine's files can be forged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from attest.collect.boot_log import ccel_place
from attest.collect.ioctl import SEV_GUEST, TDX_GUEST
from attest.collect.tsm import TsmReports, is_there
from attest.errors import CollectionError
from attest.evidence.envelope import EvidenceItem

Tee = Literal["sev-snp", "tdx", "azure-snp", "azure-tdx"]
"""The evidence distinguishes the two of Azure, not the machine's files."""
Interface = Literal["configfs-tsm", "sev-guest", "tdx-guest", "azure-vtpm"]
ConfigfsState = Literal["absent", "not mounted", "without tsm", "tsm", "not permitted"]

TPM = Path("dev/tpmrm0")
"""Below the root directory; through the kernel's resource manager, which lets other processes use the TPM too."""
_DEVICES = {
    "sev-guest": SEV_GUEST,
    "tdx_guest": TDX_GUEST,
    "tpmrm0": TPM,
    "sev": Path("dev/sev"),
    "nvidiactl": Path("dev/nvidiactl"),
}
_AZURE_TAG = "7783-7084-3265-9085-8269-3286-77"
"""The asset tag of every virtual machine on Azure. specs/azure-cvm.md, detection."""
_NVIDIA = "0x10de"
_DISPLAY_CLASSES = ("0x0300", "0x0302")
"""PCI classes of GPUs: VGA controller, 3D controller."""
MAX_TEXT_BYTES = 1024 * 1024
_HOSTS = (
    ("Microsoft", "Hyper-V"),
    ("Google", "Google Compute Engine"),
    ("Amazon", "Amazon EC2"),
    ("QEMU", "QEMU"),
    ("VMware", "VMware"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Relevant contents of a machine's files.

    Attributes:
        vendor: ``vendor_id`` of the first processor.
        flags: its features, by the kernel's names.
        system: vendor and product of the (virtual) machine.
        asset_tag: of its chassis.
        devices: existing device nodes among the known ones.
        configfs: available part of the path to configfs-tsm.
        sev_platform: the kernel has the platform device of the driver sev-guest, loaded or not.
        sev_vmpl: VMPL of the kernel, if stated.
        event_log: a CCEL table exists.
        nvidia_pci: number of NVIDIA GPUs on the PCI bus.
    """

    vendor: str = ""
    flags: frozenset[str] = frozenset()
    kernel: str = ""
    system: str = ""
    asset_tag: str = ""
    devices: frozenset[str] = frozenset()
    configfs: ConfigfsState = "absent"
    sev_platform: bool = False
    sev_vmpl: int | None = None
    event_log: bool = False
    nvidia_pci: int = 0
    nvidia_driver: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """Conclusions from a machine's files.

    Attributes:
        tee: its TEE, as far as it is known without evidence.
        interface: source of evidence, or None.
        hypervisor: as far as the machine states it.
        gpus: NVIDIA GPUs are to be included.
        reason: for the absence of a TEE or interface, for people.
    """

    tee: Tee | None
    interface: Interface | None
    virtual: bool
    hypervisor: str
    gpus: bool
    reason: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedCpu:
    """Evidence of the CPU, as the item ``cpu`` of the envelope.

    Attributes:
        beside: endorsements from the same source.
        notes: omissions, for people.
    """

    tee: Tee
    interface: str
    item: EvidenceItem
    beside: tuple[EvidenceItem, ...] = ()
    notes: tuple[str, ...] = ()


# -- reading


def read_machine(root: Path = Path("/")) -> Machine:
    """Read the machine's files. Absent or unreadable ones are left out, without errors."""
    processor = _processor(root)
    dmi = root / "sys/class/dmi/id"
    system = " ".join(filter(None, (_line(dmi / "sys_vendor"), _line(dmi / "product_name"))))
    vmpl = _line(root / "sys/devices/system/cpu/sev/vmpl")
    return Machine(
        vendor=processor.get("vendor_id", ""),
        flags=frozenset(processor.get("flags", "").split()),
        kernel=_line(root / "proc/sys/kernel/osrelease"),
        system=system,
        asset_tag=_line(dmi / "chassis_asset_tag"),
        devices=frozenset(name for name, path in _DEVICES.items() if is_there(root / path)),
        configfs=_configfs(root),
        sev_platform=is_there(root / "sys/devices/platform/sev-guest"),
        sev_vmpl=int(vmpl) if vmpl.isascii() and vmpl.isdecimal() else None,
        event_log=is_there(root / ccel_place(root)),
        nvidia_pci=sum(_is_nvidia_gpu(device) for device in _children(root / "sys/bus/pci/devices")),
        nvidia_driver=is_there(root / "proc/driver/nvidia/version"),
    )


def _processor(root: Path) -> dict[str, str]:
    """Parse the first processor of /proc/cpuinfo, which ends at an empty line."""
    first, _, _ = _text(root / "proc/cpuinfo").partition("\n\n")
    lines = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}


def _configfs(root: Path) -> ConfigfsState:
    reports = TsmReports(root)
    try:
        if reports.folder.is_dir():
            return "tsm"
        if not reports.configfs.is_dir():
            return "absent"
        return "without tsm" if any(reports.configfs.iterdir()) else "not mounted"
    except OSError:
        return "not permitted"


def _is_nvidia_gpu(device: Path) -> bool:
    return _line(device / "vendor") == _NVIDIA and _line(device / "class").startswith(_DISPLAY_CLASSES)


def _children(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from sorted(folder.iterdir())


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_TEXT_BYTES).decode("ascii", "replace")
    except OSError:
        return ""


def _line(path: Path) -> str:
    return _text(path).partition("\n")[0].strip()


# -- concluding


def detect(machine: Machine, *, tcti: str | None = None) -> Detected:
    """Return the TEE of a machine and the interface for its evidence: the TPM that the user chose, if one. Pure."""
    virtual = "hypervisor" in machine.flags
    below_paravisor = tcti is not None or _is_below_paravisor(machine)
    tee = None if below_paravisor else _tee(machine, virtual=virtual)
    interface = "azure-vtpm" if below_paravisor else _interface(machine)
    reason, hint = _why(machine, tee, interface, virtual=virtual)
    return Detected(
        tee=tee,
        interface=interface,
        virtual=virtual,
        hypervisor=_hypervisor(machine) if virtual else "",
        gpus=machine.nvidia_driver or "nvidiactl" in machine.devices,
        reason=reason,
        hint=hint,
    )


def _is_below_paravisor(machine: Machine) -> bool:
    """Recognise an Azure VM with a TPM and no other interface: a kernel below a paravisor sees no TEE."""
    own = {"sev-guest", "tdx_guest"} & machine.devices or machine.sev_platform or machine.sev_vmpl is not None
    return machine.asset_tag == _AZURE_TAG and "tpmrm0" in machine.devices and not own


def _tee(machine: Machine, *, virtual: bool) -> Tee | None:
    """Return the TEE. Flags do not suffice: sev_snp occurs in hosts too, and is missing in some guests."""
    if "tdx_guest" in machine.devices or "tdx_guest" in machine.flags:
        return "tdx"
    offered = "sev-guest" in machine.devices or machine.sev_platform or machine.sev_vmpl is not None
    return "sev-snp" if offered or (virtual and "sev_snp" in machine.flags) else None


def _interface(machine: Machine) -> Interface | None:
    if machine.configfs == "tsm":
        return "configfs-tsm"
    if "sev-guest" in machine.devices:
        return "sev-guest"
    return "tdx-guest" if "tdx_guest" in machine.devices else None


def _hypervisor(machine: Machine) -> str:
    known = (name for vendor, name in _HOSTS if vendor.lower() in machine.system.lower())
    return next(known, machine.system or "unknown")


def _why(machine: Machine, tee: Tee | None, interface: Interface | None, *, virtual: bool) -> tuple[str, str]:
    """Explain the absence of a TEE, or of an interface."""
    if interface is not None and (tee is not None or interface == "azure-vtpm"):
        return "", ""
    if machine.configfs == "not permitted":
        return "this user may not look into /sys/kernel/config", "run as root"
    if tee is not None:
        return _no_interface(machine, tee)
    if machine.asset_tag == _AZURE_TAG:
        return (
            f"this is a virtual machine on Azure without a TPM (/{TPM}), through which confidential ones attest",
            "modprobe tpm_crb, or tpm_tis; in a container, pass /dev/tpmrm0 through, or name another way with --tcti",
        )
    if virtual and "sev_es" in machine.flags:
        return "the processor's flags tell of SEV-ES without SEV-SNP, which cannot attest", "ask for a SEV-SNP guest"
    if "sev" in machine.devices:
        return "this is a host for confidential guests, and none itself", "run it inside a guest"
    if virtual:
        return (
            "this virtual machine is no confidential one",
            "ask for a SEV-SNP or TDX guest; if this is one, modprobe sev-guest or tdx-guest",
        )
    return "this machine is no confidential guest", "run it inside a SEV-SNP or TDX guest"


def _no_interface(machine: Machine, tee: Tee) -> tuple[str, str]:
    module = "sev-guest" if tee == "sev-snp" else "tdx-guest"
    if machine.configfs == "not mounted":
        return "configfs is not mounted", f"mount -t configfs none /sys/kernel/config, and modprobe {module}"
    return (
        f"the kernel {machine.kernel} shows neither configfs-tsm nor a device".replace("  ", " "),
        f"modprobe {module}; configfs-tsm needs Linux 6.7 or later; in a container, pass /dev/{module} through",
    )


def no_tee(detected: Detected) -> CollectionError:
    """Return the error for a machine without CPU evidence."""
    simulated = "to try it out, 'attest simulate machine -- COMMAND' runs a command on a simulated one"
    if detected.tee is None:
        return CollectionError(
            f"no TEE here: {detected.reason or 'nothing in this kernel makes reports'}",
            code="tee-missing",
            expected="a SEV-SNP or TDX guest",
            got="virtual machine" if detected.virtual else "no virtual machine",
            hint=f"{detected.hint or 'modprobe sev-guest, or modprobe tdx-guest'}; {simulated}",
        )
    return CollectionError(
        f"a {detected.tee} guest without a way to its evidence: {detected.reason}",
        code="tsm-missing",
        expected="configfs-tsm, or the driver's device",
        got="neither",
        hint=detected.hint,
    )
