"""A second interpreter of policies, slow and plain: raw documents and claims in, a verdict out.

Written from docs/policy.md for comparison with the engine. It imports nothing of ``attest``: neither rules nor types.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Json = Any
KIND_OF_SECTION = {
    "snp": "sev-snp",
    "tdx": "tdx",
    "sgx": "sgx",
    "gpu": "nvidia-gpu",
    "nvswitch": "nvidia-switch",
}
CPU_SECTIONS = ("snp", "tdx", "sgx")


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What verification found, as plain data."""

    items: tuple[tuple[str, str, Mapping[str, Json]], ...]
    """Name, kind and claims of each."""
    bound: bool
    fresh: bool
    simulated: bool
    at: datetime
    unchecked: frozenset[str] = frozenset()


@dataclass(kw_only=True)
class Verdict:
    """Whether a policy affirms, and every branch with whether it holds."""

    affirmed: bool = False
    branches: dict[str, bool] = field(default_factory=dict)


def interpret(policy: Mapping[str, Json], seen: Seen) -> Verdict:
    """Judge by a policy document that is known to load."""
    verdict = Verdict()
    holds, judged = Interpreter(policy, seen, verdict).body(policy, "")
    leave = set(policy.get("unchecked", {})) | seen.unchecked
    verdict.affirmed = (
        holds
        and all(kind in judged for _, kind, _ in seen.items)
        and (seen.fresh or "freshness" in leave)
        and (not seen.simulated or isinstance(policy.get("simulated"), dict))
    )
    return verdict


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def look(claims: Mapping[str, Json], path: str) -> Json:
    here: Json = claims
    for step in path.split("."):
        if not isinstance(here, dict) or step not in here:
            return None
        here = here[step]
    return here


def is_waived(demand: Json) -> bool:
    return isinstance(demand, dict) and set(demand) == {"unchecked"}


def numbers(version: str, base: int) -> list[int]:
    parts = [int(part, base) for part in version.split(".")]
    return parts + [0] * (6 - len(parts))


def in_range(version: Json, ranges: Json, base: int) -> bool:
    if not isinstance(version, str):
        return False
    found = numbers(version, base)
    for one in ranges if isinstance(ranges, list) else [ranges]:
        if "exactly" in one:
            if found == numbers(one["exactly"], base):
                return True
            continue
        low = "at_least" not in one or found >= numbers(one["at_least"], base)
        high = "below" not in one or found < numbers(one["below"], base)
        if low and high:
            return True
    return False


class Interpreter:
    """One policy and one evidence."""

    def __init__(self, policy: Mapping[str, Json], seen: Seen, verdict: Verdict) -> None:
        self.policy = policy
        self.seen = seen
        self.verdict = verdict
        self.leave = set(policy.get("unchecked", {})) | seen.unchecked
        self.branched = any(word in policy for word in ("any_of", "all_of", "at_least"))

    # -- composition

    def body(self, body: Mapping[str, Json], path: str) -> tuple[bool, set[str]]:
        spoken = self.spoken(body)
        judged = {kind for _, kind in spoken}
        holds = self.together(body)
        for section, kind in spoken:
            for _, item_kind, claims in self.seen.items:
                if item_kind != kind:
                    continue
                within = kind.startswith("azure")
                if within:
                    holds = all(list(self.azure(body["azure"], claims))) and holds
                report = claims[section] if within else claims
                holds = all(list(getattr(self, section)(body[section], report))) and holds
        for word, count in (("any_of", 1), ("all_of", None), ("at_least", None)):
            if word not in body:
                continue
            branches = body[word]["of"] if word == "at_least" else body[word]
            met, kinds, all_kinds = 0, set[str](), set[str]()
            for index, branch in enumerate(branches):
                name = f"{path}.{word}[{branch.get('name', index)}]".removeprefix(".")
                good, inner = self.body(branch, name)
                self.verdict.branches[name] = good
                all_kinds |= inner
                if good:
                    met += 1
                    kinds |= inner
            needed = body[word]["count"] if word == "at_least" else len(branches) if count is None else count
            enough = met >= needed
            holds = holds and enough
            judged |= kinds if enough and word != "all_of" else all_kinds
        return holds, judged

    @staticmethod
    def spoken(body: Mapping[str, Json]) -> list[tuple[str, str]]:
        """The sections of a body with the kinds that they judge: beside ``azure`` those of its VMs."""
        within = ("snp", "tdx") if "azure" in body else ()
        return [
            (section, f"azure-{section}" if section in within else kind)
            for section, kind in KIND_OF_SECTION.items()
            if section in body
        ]

    def together(self, body: Mapping[str, Json]) -> bool:
        """Judge the evidence as a whole."""
        kinds = [kind for _, kind, _ in self.seen.items]
        cpu = next((kind for kind in kinds if not kind.startswith("nvidia")), None)
        spoken = [kind for section, kind in self.spoken(body) if section in CPU_SECTIONS]
        devices = "gpu" in body or "nvswitch" in body
        if spoken and (devices or self.branched) and cpu not in spoken:
            return False
        if not devices:
            return True
        demands = body.get("devices", {})
        gpus = [claims for _, kind, claims in self.seen.items if kind == "nvidia-gpu"]
        switches = [claims for _, kind, claims in self.seen.items if kind == "nvidia-switch"]
        for name, section, found in (("gpus", "gpu", gpus), ("switches", "nvswitch", switches)):
            if section in body and not self.counted(demands.get(name, {"at_least": 1}), len(found)):
                return False
        bound = (cpu is not None and self.seen.bound) or not (gpus or switches)
        if not bound and not is_waived(demands.get("bound", True)):
            return False
        if "gpu" in body:
            for name, claim in (("same_architecture", "architecture"), ("same_driver_version", "driver_version")):
                values = {claims.get(claim) for claims in gpus}
                if len(values) > 1 and not is_waived(demands.get(name, True)):
                    return False
        return True

    @staticmethod
    def counted(demand: Json, number: int) -> bool:
        if is_waived(demand):
            return True
        if isinstance(demand, int):
            return number == demand
        return bool(demand["at_least"] <= number <= demand.get("at_most", number))

    # -- what sections have in common

    @staticmethod
    def test(demand: Json, claim: Json, holds: Callable[[Json, Json], bool]) -> bool:
        if is_waived(demand):
            return True
        return claim is not None and holds(demand, claim)

    def bits(self, stated: Mapping[str, bool | Json], strict: Mapping[str, bool], claims: Json) -> Iterator[bool]:
        for name, wanted in {**strict, **stated}.items():
            yield self.test(wanted, look(claims, name), lambda demand, claim: claim is demand)

    def referenced(self, demand: Json, claim: Json) -> bool:
        def holds(names: Json, value: Json) -> bool:
            for name in names:
                reference = self.policy["reference_values"][name]
                in_time = "expires" not in reference or self.seen.at <= moment(reference["expires"])
                if in_time and value in [one.lower() for one in reference["values"]]:
                    return True
            return False

        return self.test(demand, claim, holds)

    def listed(self, section: Mapping[str, Json], claims: Json, table: Mapping[str, str]) -> Iterator[bool]:
        """Lists of values, of which the claim has to be one; lists of denied ones begin with ``denied``."""
        for key, claim in table.items():
            if key in section:
                value = look(claims, claim)
                if key.startswith("denied"):
                    yield value is not None and value not in [one.lower() for one in section[key]]
                else:
                    yield self.test(
                        section[key],
                        value,
                        lambda demand, one: (
                            one in [v.lower() if isinstance(one, str) else v for v in demand] or one in demand
                        ),
                    )

    # -- sections

    def azure(self, azure: Mapping[str, Json], claims: Json) -> Iterator[bool]:
        for number in range(24):
            if f"pcr{number}" in azure:
                yield self.referenced(azure[f"pcr{number}"], look(claims, f"pcrs.{number}"))
        vm = claims["vm_configuration"]
        strict = {"secure_boot": True, "tpm_enabled": True, "console_enabled": False}
        yield from self.bits(azure.get("vm_configuration", {}), strict, vm)
        for key, name in (("vm_unique_ids", "vm_unique_id"), ("root_cert_thumbprints", "root_cert_thumbprint")):
            if key in azure:
                yield self.test(
                    azure[key], vm.get(name), lambda demand, one: one.lower() in [value.lower() for value in demand]
                )
        yield from self.listed(azure, claims, {"user_data": "user_data"})
        if "tpm_clock_safe" in azure:
            yield is_waived(azure["tpm_clock_safe"]) or claims["tpm"]["safe"] is True
        if "maximum_restart_count" in azure:
            yield claims["tpm"]["restart_count"] <= azure["maximum_restart_count"]
        if "event_log" in azure:
            yield from self.event_log(azure["event_log"], claims.get("eventlog"), hashed="value_sha256")

    def snp(self, snp: Mapping[str, Json], claims: Json) -> Iterator[bool]:
        yield self.test(snp["products"], claims.get("product"), lambda demand, claim: claim in demand)
        yield self.referenced(snp["measurement"], claims.get("measurement"))
        product = claims["product"]
        for key in ("minimum_tcb", "minimum_committed_tcb", "minimum_launch_tcb"):
            if key in snp:
                which = {"minimum_tcb": "reported_tcb"}.get(key, key.removeprefix("minimum_"))
                yield self.test(
                    snp[key],
                    claims.get(which),
                    lambda demand, claim: (
                        product in demand and all(claim[part] >= low for part, low in demand[product].items())
                    ),
                )
        for which in ("reported_tcb", "committed_tcb", "launch_tcb"):
            key = "exact_tcb" if which == "reported_tcb" else f"exact_{which}"
            if key in snp:
                yield self.test(
                    snp[key], claims.get(which), lambda demand, claim: dict(claim) in demand.get(product, [])
                )
        yield self.test(snp.get("vmpl", [0]), claims.get("vmpl"), lambda demand, claim: claim in demand)
        signers = snp.get("signing_key", ["vcek", "vlek"])
        yield self.test(signers, claims.get("signing_key"), lambda demand, claim: claim in demand)
        yield from self.bits(snp.get("guest_policy", {}), {"debug": False, "migrate_ma": False}, claims["policy"])
        yield from self.bits(snp.get("platform_info", {}), {"alias_check_complete": True}, claims["platform_info"])
        yield is_waived(snp.get("provisional_firmware")) or claims.get("provisional_firmware") is False
        yield is_waived(snp.get("rollback_protection")) or claims.get("firmware_rollback_protected") is True
        yield is_waived(snp.get("rolled_back_since_launch")) or claims.get("rolled_back_since_launch") is False
        masked = claims["signing_key"] == "vcek" and not claims["chip_id"].strip("0")
        yield is_waived(snp.get("masked_chip_id")) or not masked
        yield from self.listed(
            snp,
            claims,
            {
                "chip_ids": "chip_identity",
                "denied_chip_ids": "chip_identity",
                "host_data": "host_data",
                "id_key_digests": "id_key_digest",
                "author_key_digests": "author_key_digest",
                "family_ids": "family_id",
                "image_ids": "image_id",
                "csp_ids": "csp_id",
            },
        )
        if "minimum_abi" in snp:
            abi = [claims["policy"]["abi_major"], claims["policy"]["abi_minor"]]
            yield is_waived(snp["minimum_abi"]) or abi >= [snp["minimum_abi"]["major"], snp["minimum_abi"]["minor"]]
        if "minimum_guest_svn" in snp:
            yield claims["guest_svn"] >= snp["minimum_guest_svn"]
        for key, claim in (("mitigations_at_launch", "launch_mit_vector"), ("mitigations_now", "current_mit_vector")):
            if key in snp:
                yield claims.get(claim) is not None and snp[key] & ~claims[claim] == 0

    def tdx(self, tdx: Mapping[str, Json], claims: Json) -> Iterator[bool]:
        yield self.referenced(tdx["mr_td"], claims.get("mr_td"))
        for register in ("rtmr0", "rtmr1", "rtmr2", "rtmr3"):
            if register in tdx:
                yield self.referenced(tdx[register], claims.get(register))
        stated = tdx.get("td_attributes", {})
        strict = {"debug": False, "sept_ve_disable": True, "migratable": False}
        yield from self.bits(stated, strict, claims["td_attributes"])
        yield is_waived(stated.get("debug")) or claims["td_attributes"]["under_debug"] is False
        yield is_waived(tdx.get("unnamed_attributes")) or claims["td_attributes"]["unnamed"] == 0
        yield is_waived(tdx.get("unknown_xfam")) or claims["xfam_known"] is True
        named = "mr_service_td" in tdx and not is_waived(tdx["mr_service_td"])
        if "service_td" in tdx or not named:
            yield is_waived(tdx.get("service_td")) or claims.get("service_td_bound") is False
        table = ("mr_service_td", "mr_seam", "mr_config_id", "mr_owner", "mr_owner_config")
        yield from self.listed(tdx, claims, {name: name for name in table})
        current = claims.get("tcb_status_current")
        if "tcb_status_current" in tdx and not (current is None and "tcb" in self.leave):
            yield self.test(tdx["tcb_status_current"], current, lambda demand, claim: claim in demand)
        if "minimum_tdx_module_svn" in tdx:
            yield self.test(
                tdx["minimum_tdx_module_svn"],
                claims["tdx_module"],
                lambda demand, claim: claim["svn"] >= demand.get(str(claim["major_version"]), 256),
            )
        yield from self.intel_tcb(tdx, claims)
        if "event_log" in tdx:
            yield from self.event_log(tdx["event_log"], claims.get("eventlog"), hashed="value_sha384")

    def sgx(self, sgx: Mapping[str, Json], claims: Json) -> Iterator[bool]:
        yield self.referenced(sgx["mr_enclave"], claims.get("mr_enclave"))
        yield from self.listed(sgx, claims, {name: name for name in ("mr_signer", "isv_prod_id", "config_id")})
        if "minimum_isv_svn" in sgx:
            yield claims["isv_svn"] >= sgx["minimum_isv_svn"]
        yield from self.bits(sgx.get("attributes", {}), {"debug": False}, claims["attributes"])
        yield from self.intel_tcb(sgx, claims)

    def intel_tcb(self, section: Mapping[str, Json], claims: Json) -> Iterator[bool]:
        absent_is_fine = "tcb" in self.leave
        status = claims.get("tcb_status")
        if not (status is None and absent_is_fine):
            yield self.test(section.get("tcb_status", ["UpToDate"]), status, lambda demand, claim: claim in demand)
        advisories = claims.get("advisory_ids")
        if not (advisories is None and absent_is_fine):
            yield self.test(
                section.get("accepted_advisories", {}),
                advisories,
                lambda demand, claim: all(
                    one in demand and self.seen.at <= moment(demand[one]["expires"]) for one in claim
                ),
            )
        date = claims.get("tcb_date")
        if "minimum_tcb_date" in section and not (date is None and absent_is_fine):
            yield self.test(section["minimum_tcb_date"], date, lambda low, claim: moment(claim) >= moment(low))
        if "minimum_tcb_evaluation_data_number" in section:
            for name in ("tcb_evaluation_data_number", "qe_identity_evaluation_data_number"):
                number = claims.get(name)
                if not (number is None and absent_is_fine):
                    yield number is not None and number >= section["minimum_tcb_evaluation_data_number"]
        yield from self.listed(section, claims, {"fmspcs": "fmspc", "ppids": "ppid", "denied_ppids": "ppid"})
        yield from self.bits(section.get("platform", {}), {}, claims.get("platform", {}))

    def event_log(self, section: Mapping[str, Json], log: Json, *, hashed: str) -> Iterator[bool]:
        def each(name: str, demand: Json, part: str) -> bool:
            return is_waived(demand) or self.events(log, name, part, demand)

        yield is_waived(section.get("required")) or log is not None or "eventlog" in self.leave
        if "secure_boot" in section:
            on = log is not None and (log.get("secure_boot") or {}).get("enabled") is True
            yield is_waived(section["secure_boot"]) or on or (log is None and "eventlog" in self.leave)
        for store, digests in section.get("signature_stores", {}).items():
            yield each(store, digests, hashed)
        if "boot_variables" in section or "other_firmware_events" in section:
            yield each("boot_variables", section.get("boot_variables", []), "value")
            yield each("other_firmware_events", section.get("other_firmware_events", []), "digest")
        loader = {
            "kernel_command_lines": "text",
            "grub_commands": "text",
            "load_options": "digest",
            "initrds": "digest",
            "other_loader_events": "digest",
        }
        if any(name in section for name in loader):
            for name, part in loader.items():
                yield each(name, section.get(name, []), part)
        if "application_events" in section or "other_runtime_events" in section:
            name = "other_runtime_events"
            yield each(name, section.get(name, []), "digest")
            yield self.applications(section.get("application_events", []), log)

    def events(self, log: Json, name: str, part: str, demand: Json) -> bool:
        if log is None:
            return "eventlog" in self.leave
        if name not in log:
            return False
        found = [one[part] for one in log[name]]
        return all(one in demand for one in found) and bool(found) == bool(demand)

    @staticmethod
    def _ranges(base: int) -> Callable[[Json, Json], bool]:
        return lambda demand, one: in_range(one, demand, base)

    def applications(self, demand: Json, log: Json) -> bool:
        if is_waived(demand):
            return True
        if log is None:
            return "eventlog" in self.leave
        events = log["application_events"]

        def meets(event: Json, entry: Json) -> bool:
            same = (event["domain"], event["operation"]) == (entry["domain"], entry["operation"])
            return same and ("contents" not in entry or event["content"] in entry["contents"])

        return all(any(meets(e, one) for one in demand) for e in events) and all(
            any(meets(e, one) for e in events) for one in demand
        )

    def gpu(self, gpu: Mapping[str, Json], claims: Json) -> Iterator[bool]:
        yield self.test(gpu["architectures"], claims.get("architecture"), lambda demand, claim: claim in demand)
        for key, claim, base in (("driver_versions", "driver_version", 10), ("vbios_versions", "vbios_version", 16)):
            yield self.test(gpu[key], claims.get(claim), self._ranges(base))
        yield from self.measured(gpu, claims, ("driver_rim", "vbios_rim"))
        yield is_waived(gpu.get("fwid_required")) or claims.get("fwid_matched") is True
        yield is_waived(gpu.get("environment")) or look(claims, "nvml.environment") == "production"
        yield is_waived(gpu.get("cc_mode")) or look(claims, "nvml.cc_mode") is True
        yield is_waived(gpu.get("dev_tools_mode")) or look(claims, "nvml.dev_tools_mode") is False
        yield from self.listed(
            gpu,
            claims,
            {"modes": "mode", "projects": "project", "project_skus": "project_sku", "chip_skus": "chip_sku"},
        )

    def nvswitch(self, switch: Mapping[str, Json], claims: Json) -> Iterator[bool]:
        yield self.test(
            switch["vbios_versions"], claims.get("vbios_version"), lambda demand, one: in_range(one, demand, 16)
        )
        yield from self.measured(switch, claims, ("vbios_rim",))
        yield is_waived(switch.get("locked")) or claims.get("locked") is True

    def measured(self, section: Mapping[str, Json], claims: Json, rims: tuple[str, ...]) -> Iterator[bool]:
        if not is_waived(section.get("rim", True)) and not ("rim" not in section and "rim" in self.policy_leave()):
            found = claims.get("measurements")
            yield (
                found is not None
                and found["matched"] > 0
                and not found["mismatches"]
                and all(str(index) in section.get("waived_measurements", {}) for index in self.differing(found))
                and all(look(claims, f"{rim}.version") is not None for rim in rims)
                and (
                    "held_rim_signers" in section
                    or all(look(claims, f"{rim}.revocation") in (None, "good") for rim in rims)
                )
            )
        table = {
            "fwids": "fwid",
            "device_identities": "device_identity",
            "denied_device_identities": "device_identity",
        }
        yield from self.listed(section, claims, table)

    def policy_leave(self) -> set[str]:
        return set(self.policy.get("unchecked", {}))

    @staticmethod
    def differing(found: Json) -> list[int]:
        """What somebody waived; NVIDIA's own rule about NVDEC needs nobody's leave."""
        return [one["index"] for one in found["waived"] if "NVIDIA" not in one.get("reason", "")]
