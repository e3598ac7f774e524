/**
 * What verified GPUs and NVSwitches state, by the names and in the order of `attest.evidence.gpu.claims`.
 *
 * A claim that the evidence does not carry is absent. Nothing in a report says whether developer tools were on: that is
 * in `nvml`, which a guest collects itself, so that it counts only through what the CPU signed for it.
 */

import { rfc3339 } from "../bytes";
import { type ClaimTree, type Claims, nestedClaims } from "../claims";
import type { Status } from "../ocsp";
import { isHeld } from "./attempt";
import { type Source, isMatch } from "./measurements";
import { nvidiaClaims } from "./nvidia_claims";
import type { VerifiedGpu } from "./verify";

export type Subject = Omit<VerifiedGpu, "claims">;

const MODES = ["spt", "mpt", "protected-pcie"];
const LOCKED = 1;
const ON = 0xaa;
/** Where a Blackwell GPU does not state its chip. */
const DEFAULT_BLACKWELL = "GB100";

/** Return all claims, nested by their dotted names. */
export function gpuClaims(v: Subject): Claims {
  const { opaque, leaf, measurements, architecture, product } = v;
  const { featureFlag, protectedPcie, project, projectSku, chipSku, lockStatus } = opaque;
  const isSwitch = v.kind === "nvidia-switch";
  return nestedClaims({
    architecture,
    product,
    device_identity: v.identity,
    hwmodel: v.device.commonName,
    // The device makes a new L5 for each firmware: this names no device for longer than its firmware lasts.
    ueid: String(leaf.certificate.serial),
    fwid: leaf.fwid,
    fwid_matched: opaque.fwid && true,
    nonce: v.nonce,
    driver_version: v.driverVersion,
    vbios_version: v.vbiosVersion,
    ...(isSwitch
      ? { lock_status: lockStatus, locked: stated(lockStatus, LOCKED) }
      : {
          mode: MODES[featureFlag!],
          feature_flag: featureFlag,
          protected_pcie: stated(protectedPcie, ON),
          project,
          project_sku: projectSku,
          chip_sku: chipSku,
          nvml: v.evidence.settings,
        }),
    opaque_version: opaque.version,
    unknown_opaque_types: opaque.unknown,
    "measurements.compared": measurements?.length,
    "measurements.matched": measurements?.filter(isMatch).length,
    "measurements.mismatches": measurements && [], // one that was not waived would have refused
    // Where, in which RIM, what was expected, what is there, and why that passes.
    "measurements.waived": measurements?.filter(({ reason }) => reason).map((result) => ({ ...result, rim: rimId(v, result.source) })),
    ...rimMembers(v, "driver"),
    ...rimMembers(v, "vbios"),
    nvidia: nvidiaClaims(v),
  });
}

const stated = (value: number | undefined, wanted: number): boolean | undefined => (value === undefined ? undefined : value === wanted);

/** Say what the answers about a chain come to: `good`, or why a tolerated one is on hold; undefined without any. */
export function revocationOf(statuses: readonly Status[]): string | undefined {
  const held = statuses.find(isHeld);
  return held ? (held.reason ?? "unspecified") : statuses.length ? "good" : undefined;
}

function rimMembers(v: Subject, source: Source): ClaimTree {
  const rim = v.rims[source];
  if (!rim) return {};
  const { parsed, window, statuses } = rim;
  const [issued, expires] = window!.map(rfc3339);
  const members = {
    id: rimId(v, source),
    version: parsed.version,
    sha256: parsed.sha256,
    signer: parsed.certificates[0]!.name,
    revocation: revocationOf(statuses),
    issued,
    expires,
    not_after: expires,
  };
  return Object.fromEntries(Object.entries(members).map(([name, value]) => [`${source}_rim.${name}`, value]));
}

/**
 * The id under which NVIDIA serves the RIM; what cannot stand in an id was not found by one. The project, SKU and chip SKU of
 * an LS10 are constants; the chip of a Blackwell is that of opaque field 35.
 */
function rimId({ opaque, driverVersion, vbiosVersion, architecture, product }: Subject, source: Source): string | undefined {
  const { project, projectSku, chipSku, chipInfo = DEFAULT_BLACKWELL } = opaque;
  const chip = architecture === "hopper" ? product : chipInfo;
  const version = vbiosVersion?.replaceAll(".", "").toUpperCase();
  const [kind, ...parts] =
    architecture === "ls10"
      ? ["NV_SWITCH_BIOS_5612_0002_890", version]
      : source === "vbios"
        ? ["NV_GPU_VBIOS", project?.toUpperCase(), projectSku?.toUpperCase(), chipSku?.toUpperCase(), version]
        : [chip.startsWith("GH") ? "NV_GPU_DRIVER" : "NV_GPU_CC_DRIVER", chip, driverVersion];
  return parts.every((part) => part && /^[0-9A-Za-z.-]{1,24}$/.test(part) && /[^.]/.test(part)) ? [kind, ...parts].join("_") : undefined;
}
