"""The claims of one device for people: the most important ones, or all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.text import Text

from attest.cli.documents import mapping_of
from attest.encoding import JsonValue
from attest.terminal.console import plain

_Claims = Mapping[str, JsonValue]
_TCBS = ("reported_tcb", "current_tcb", "committed_tcb", "launch_tcb")
_SHOWN_WHEN_SET = ("host_data", "family_id", "image_id", "id_key_digest", "author_key_digest")


def claim_rows(claims: _Claims, *, verbose: bool) -> Iterator[tuple[str, Text]]:
    """Yield names and values: the most important claims, or every claim."""
    if not verbose and "binding" in claims:
        yield from _bound(claims)
    if verbose:
        yield from _all(claims)
    elif "device_identity" in claims:
        yield from _nvidia(claims)
    elif "submodules" in claims:
        yield from _token(claims)
    elif "facts" in claims:
        yield from _service_token(claims)
    elif "pcrs" in claims:
        yield from _azure(claims)
    elif "measurement" in claims:
        yield from _snp(claims)
    else:
        yield from _intel(claims)


def _bound(claims: _Claims) -> Iterator[tuple[str, Text]]:
    """Describe what the report of a machine in a service's document commits to."""
    keys = mapping_of(claims["binding"])
    for name, value in keys.items():
        yield name.replace("_", " "), plain(value, "bold")
    yield "keys", plain(f"of the {claims.get('key_scope')}" if keys else "none is bound")
    yield "GPUs bound by", plain(str(claims.get("gpu_binding")))


_INTEL_FIRST = ("mr_td", "mr_enclave", "mr_signer", "rtmr0", "rtmr1", "rtmr2", "rtmr3", "report_data")


def _intel(claims: _Claims) -> Iterator[tuple[str, Text]]:
    """Describe a TDX or SGX quote: the software, the platform and its state."""
    kind = "TDX" if "mr_td" in claims else "SGX"
    yield "machine", plain(f"Intel {kind}, quote version {claims.get('version')}, FMSPC {claims.get('fmspc')}")
    for name in _INTEL_FIRST:
        if name in claims:
            yield name.replace("_", " "), plain(claims[name], "bold" if name in ("mr_td", "mr_enclave") else "")
    debug = next(
        (c.get("debug") for c in (claims.get("td_attributes"), claims.get("attributes")) if isinstance(c, dict)), None
    )
    yield "debug", plain("ALLOWED" if debug else "off")
    if "tcb_status" in claims:
        advisories = claims.get("advisory_ids")
        named = ", ".join(map(str, advisories)) if isinstance(advisories, list) and advisories else "no advisories"
        yield (
            "TCB status",
            plain(f"{claims['tcb_status']} ({named}), evaluation {claims.get('tcb_evaluation_data_number')}"),
        )
    yield from _event_log(claims)


def _event_log(claims: _Claims) -> Iterator[tuple[str, Text]]:
    if "eventlog" in claims:
        yield "event log", plain("replays to the registers; its facts are in --verbose and --json")


_PCRS_SHOWN = ("4", "7", "8", "9", "11", "12", "14")
"""Boot loader, secure boot policy, commands and files of GRUB, sections of a unified kernel image, its command line,
machine owner keys (azure-cvm.md 5)."""


def _azure(claims: _Claims) -> Iterator[tuple[str, Text]]:
    """Describe the guest's system (the registers), and its platform (the paravisor and the CPU)."""
    kind, cpu = next((name, value) for name in ("snp", "tdx") if isinstance(value := claims.get(name), dict))
    machine = f"Azure, AMD {cpu.get('product')}" if kind == "snp" else f"Azure, Intel TDX, FMSPC {cpu.get('fmspc')}"
    configuration, tpm, pcrs = (mapping_of(claims.get(name)) for name in ("vm_configuration", "tpm", "pcrs"))
    yield "machine", plain(f"{machine}, VM {configuration.get('vm_unique_id')}")
    secure = "on" if configuration.get("secure_boot") is True else "OFF"
    console = "off" if configuration.get("console_enabled") is False else "ON"
    yield "configuration", plain(f"secure boot {secure}, serial console {console}")
    yield "paravisor", plain(cpu.get("measurement") or cpu.get("mr_td"), "bold")
    for index in _PCRS_SHOWN:
        if index in pcrs:
            yield f"PCR {index}", plain(pcrs[index])
    yield from _event_log(claims)
    yield "nonce", plain(tpm.get("extra_data"))
    yield "user data", plain(claims.get("user_data", ""))
    counters = f"{tpm.get('reset_count')} resets, {tpm.get('restart_count')} resumptions"
    yield "TPM", plain(f"clock {tpm.get('clock')} ms, {counters}")
    yield "firmware", plain(_firmware(cpu) if kind == "snp" else f"TCB status {cpu.get('tcb_status', 'unchecked')}")


def _nvidia(claims: _Claims) -> Iterator[tuple[str, Text]]:
    """Describe a GPU or switch: its model, its firmware, and the reference values of its measurements."""
    product = f"NVIDIA {claims.get('product')} ({claims.get('architecture')})"
    yield "device", plain(f"{product}, identity {claims['device_identity']}")
    versions = [f"{name} {claims[key]}" for name, key in _NVIDIA_VERSIONS if key in claims]
    yield "firmware", plain(", ".join(versions), "bold")
    yield "mode", plain(_nvidia_mode(claims))
    measurements = claims.get("measurements")
    if isinstance(measurements, dict):
        waived = measurements.get("waived")
        text = f"{measurements.get('matched')} of {measurements.get('compared')} equal a reference value"
        yield "measurements", plain(f"{text}, {len(waived)} waived" if isinstance(waived, list) and waived else text)
    else:
        yield "measurements", plain("NOT COMPARED with reference values", "bold yellow")
    for name in ("driver_rim", "vbios_rim"):
        rim = claims.get(name)
        if isinstance(rim, dict):
            yield name.replace("_rim", " RIM"), plain(f"{rim.get('id')}, expires {rim.get('expires')}")
    yield "nonce", plain(claims.get("nonce", ""))


_NVIDIA_VERSIONS = (("driver", "driver_version"), ("VBIOS", "vbios_version"))


def _nvidia_mode(claims: _Claims) -> str:
    """Describe the mode that the report states, and the settings of NVML at the time of collection."""
    parts = [str(claims.get("mode", "not stated in the report"))]
    settings = claims.get("nvml")
    if isinstance(settings, dict):
        parts.append(f"confidential computing {'on' if settings.get('cc_mode') else 'OFF'}")
        parts.append(f"developer tools {'ON' if settings.get('dev_tools_mode') else 'off'} (by NVML)")
    if "lock_status" in claims:
        parts.append("locked" if claims.get("locked") else "NOT LOCKED")
    return ", ".join(parts)


def _token(claims: _Claims) -> Iterator[tuple[str, Text]]:
    """Describe a token about devices: its issuer and its statements."""
    yield "issuer", plain(claims.get("issuer", ""), "bold")
    yield "signing key", plain(claims.get("key_id", ""))
    overall = claims.get("overall")
    if isinstance(overall, dict):
        yield "overall result", plain(str(overall.get("x-nvidia-overall-att-result")).lower())
    for name, device in mapping_of(claims.get("submodules")).items():
        if isinstance(device, dict):
            yield name, plain(f"{device.get('hwmodel')}, measurements: {device.get('measres')}")
    yield "nonce", plain(claims.get("nonce", ""))


_TOKEN_FACTS = ("measurement", "mr_td", "mr_enclave", "tcb_status", "driver_version", "vbios_version")
_TOKEN_STATEMENTS = ("compliance_status", "debug_status", "secure_boot", "gcp_tcb_status", "cc_mode")


def _service_token(claims: _Claims) -> Iterator[tuple[str, Text]]:
    """Describe a token about a machine: its issuer and its statements."""
    yield "issuer", plain(claims.get("issuer", ""), "bold")
    yield "signing key", plain(claims.get("key_id", ""))
    yield "counts", plain(f"{claims.get('issued')} to {claims.get('expires')}")
    for name, one in mapping_of(claims.get("facts")).items():
        if isinstance(one, dict):
            yield from _facts(name, one)
    for title in ("audience", "nonces"):
        values = claims.get(title)
        if isinstance(values, list) and values:
            yield title, plain(", ".join(map(str, values)))


def _facts(name: str, facts: _Claims) -> Iterator[tuple[str, Text]]:
    yield name, plain(facts.get("kind", ""), "bold")
    for group, names in (("claims", _TOKEN_FACTS), ("statements", _TOKEN_STATEMENTS)):
        found = mapping_of(facts.get(group))
        for member in names:
            if member in found:
                value = found[member]
                yield f"{name} {member.replace('_', ' ')}", plain(str(value).lower() if value is True else value)
    container = mapping_of(mapping_of(facts.get("statements")).get("container"))
    if "image_digest" in container:
        yield f"{name} container image", plain(container["image_digest"], "bold")


def _snp(claims: _Claims) -> Iterator[tuple[str, Text]]:
    machine = f"AMD {claims.get('product')}, report version {claims.get('version')}, VMPL {claims.get('vmpl')}"
    key = f"signed with its {str(claims.get('signing_key')).upper()}"
    provider = f", provider {claims['csp_id']}" if "csp_id" in claims else ""
    yield "machine", plain(f"{machine}, {key}{provider}")
    yield "measurement", plain(claims["measurement"], "bold")
    yield "report data", plain(claims.get("report_data", ""))
    yield "firmware", plain(_firmware(claims))
    yield from _tcbs(claims)
    yield "guest policy", plain(_guest_policy(claims))
    yield "chip id", plain(claims.get("chip_id", ""))
    for name in _SHOWN_WHEN_SET:
        value = claims.get(name)
        if isinstance(value, str) and value.strip("0"):
            yield name.replace("_", " "), plain(value)


def _all(claims: _Claims, prefix: str = "") -> Iterator[tuple[str, Text]]:
    for name, value in claims.items():
        if isinstance(value, dict):
            if value and all(isinstance(member, int) and not isinstance(member, bool) for member in value.values()):
                yield prefix + name, plain(_tcb(value))
            else:
                yield from _all(value, f"{prefix}{name}.")
        else:
            yield prefix + name, plain(str(value).lower() if isinstance(value, bool) else value)


def _firmware(claims: _Claims) -> str:
    current, committed = claims.get("current_version"), claims.get("committed_version")
    if claims.get("provisional_firmware") is True:
        return f"{current}, provisional: can be rolled back to {committed} and to the committed TCB"
    return f"{current}, committed"


def _tcbs(claims: _Claims) -> Iterator[tuple[str, Text]]:
    """Yield one line if all TCBs are equal, else one for each."""
    found = {name: claims.get(name) for name in _TCBS}
    texts = {name: _tcb(value) for name, value in found.items() if isinstance(value, dict)}
    if len(set(texts.values())) == 1:
        yield "TCB", plain(f"{texts['reported_tcb']} (reported, current, committed and at launch)")
        return
    for name, text in texts.items():
        yield name.replace("_tcb", " TCB"), plain(text)


def _tcb(value: Mapping[str, JsonValue]) -> str:
    return " ".join(f"{part} {level}" for part, level in value.items())


def _guest_policy(claims: _Claims) -> str:
    bits = mapping_of(claims.get("policy"))
    debug = "DEBUG ALLOWED" if bits.get("debug") else "debug off"
    agent = "MIGRATION AGENT ALLOWED" if bits.get("migrate_ma") else "migration agent off"
    others = [name for name, value in bits.items() if value is True and name not in ("debug", "migrate_ma")]
    return ", ".join([debug, agent, *(f"{name} allowed" for name in others)])
