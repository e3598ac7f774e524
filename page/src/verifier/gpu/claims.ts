/**
 * What verified GPUs and NVSwitches state, by the names and in the order of `attest.evidence.gpu.claims`.
 *
 * A claim that the evidence does not carry is absent. Nothing in a report says whether developer tools were on: that is
 * in `nvml`, which a guest collects itself, so that it counts only through what the CPU signed for it.
 */

import { rfc3339 } from "../bytes";
import { type ClaimTree, type Claims, nestedClaims } from "../claims";
import type { Status } from "../ocsp";
import { type Passed, isHeld, isSwitch } from "./attempt";
import { type Source, isMatch } from "./measurements";
import { nvidiaClaims } from "./nvidia_claims";
import { versionOf } from "./references";

const MODES = ["spt", "mpt", "protected-pcie"];
const LOCKED = 1;
const ON = 0xaa;
/** Where a Blackwell GPU does not state its chip. */
const DEFAULT_BLACKWELL = "GB100";

/** Return all claims, nested by their dotted names. */
export function gpuClaims(attempt: Passed): Claims {
  const { evidence, path, leaf, model, identity, comparison } = attempt;
  const { nonce, opaque } = evidence.report;
  const { featureFlag, protectedPcie, project, projectSku, chipSku, lockStatus } = opaque;
  return nestedClaims({
    architecture: model.architecture,
    product: model.product,
    device_identity: identity,
    hwmodel: path.device!.commonName,
    // The device makes a new L5 for each firmware: this names no device for longer than its firmware lasts.
    ueid: String(leaf.certificate.serial),
    fwid: leaf.fwid,
    fwid_matched: opaque.fwid && true,
    nonce,
    vbios_version: versionOf(opaque, model, "vbios"),
    ...(isSwitch(attempt)
      ? { lock_status: lockStatus, locked: stated(lockStatus, LOCKED) }
      : {
          driver_version: opaque.driverVersion,
          mode: MODES[featureFlag!],
          feature_flag: featureFlag,
          protected_pcie: stated(protectedPcie, ON),
          project,
          project_sku: projectSku,
          chip_sku: chipSku,
          nvml: evidence.settings,
        }),
    opaque_version: opaque.version,
    unknown_opaque_types: opaque.unknown,
    "measurements.compared": comparison?.length,
    "measurements.matched": comparison?.filter(isMatch).length,
    "measurements.mismatches": comparison && [], // one that was not waived would have refused
    // Where, in which RIM, what was expected, what is there, and why that passes.
    "measurements.waived": comparison
      ?.filter(({ reason }) => reason)
      .map((result) => ({ ...result, rim: rimId(attempt, result.source) })),
    ...rimMembers(attempt, "driver"),
    ...rimMembers(attempt, "vbios"),
    nvidia: nvidiaClaims(attempt),
  });
}

const stated = (value: number | undefined, wanted: number): boolean | undefined =>
  value === undefined ? undefined : value === wanted;

/** Say what the answers about a chain come to: `good`, or why a tolerated one is on hold; undefined without any. */
export function revocationOf(statuses: readonly Status[]): string | undefined {
  return statuses.some(isHeld) ? "certificateHold" : statuses.length ? "good" : undefined;
}

function rimMembers(attempt: Passed, source: Source): ClaimTree {
  const rim = attempt.rims[source];
  if (!rim) return {};
  const { version, sha256, certificates } = rim.parsed;
  const [issued, expires] = rim.window!.map(rfc3339);
  const revocation = revocationOf(rim.statuses);
  return prefixed(`${source}_rim.`, {
    id: rimId(attempt, source),
    version,
    sha256,
    signer: certificates[0]!.name,
    revocation,
    issued,
    expires,
    not_after: expires,
  });
}

export function prefixed(prefix: string, claims: ClaimTree): ClaimTree {
  return Object.fromEntries(Object.entries(claims).map(([name, value]) => [prefix + name, value]));
}

/**
 * The id under which NVIDIA serves the RIM; what cannot stand in an id was not found by one. The project, SKU and chip SKU of
 * an LS10 are constants; the chip of a Blackwell is that of opaque field 35.
 */
function rimId(attempt: Passed, source: Source): string | undefined {
  const { model, evidence } = attempt;
  const { opaque } = evidence.report;
  const version = versionOf(opaque, model, source);
  const bios = version?.replaceAll(".", "");
  const chip = model.architecture === "hopper" ? model.product : (opaque.chipInfo ?? DEFAULT_BLACKWELL);
  const [kind, ...parts] = isSwitch(attempt)
    ? ["NV_SWITCH_BIOS_5612_0002_890", bios]
    : source === "vbios"
      ? ["NV_GPU_VBIOS", opaque.project, opaque.projectSku, opaque.chipSku, bios]
      : [chip.startsWith("GH") ? "NV_GPU_DRIVER" : "NV_GPU_CC_DRIVER", chip, version];
  const isId = parts.every((part) => part && /^[0-9A-Za-z.-]{1,24}$/.test(part) && /[^.]/.test(part));
  const id = [kind, ...parts].join("_");
  return isId ? (source === "driver" ? id : id.toUpperCase()) : undefined;
}
