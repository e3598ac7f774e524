/**
 * Claims of verified GPUs and NVSwitches, by the names and in the order of `attest.evidence.gpu.claims`.
 *
 * A claim that the evidence does not carry is absent. Nothing in a report says whether developer tools were on: that is
 * in `nvml`, which a guest collects itself, so that it counts only through what the CPU signed for it.
 */

import { rfc3339 } from "../bytes";
import { type ClaimTree, type Claims, nestedClaims, prefixed } from "../claims";
import { valueNames } from "../unknown_values";
import type { GpuFacts } from "./facts";
import { isSwitch } from "./presented";
import { type Comparison, type Source, isMatch } from "./measurements";
import { nvidiaClaims, revocationOf } from "./nvidia_claims";
import { versionOf } from "./references";

const LOCKED = 1;
const ON = 0xaa;
/** Name of a Blackwell GPU that does not state its chip. */
const DEFAULT_BLACKWELL = "GB100";

/** Return all claims, nested by their dotted names. */
export function gpuClaims(facts: GpuFacts): Claims {
  const { evidence, device, leaf, model, identity } = facts;
  const { nonce, opaque } = evidence.report;
  return nestedClaims({
    architecture: model.architecture,
    product: model.product,
    device_identity: identity,
    hwmodel: device.commonName,
    // The device makes a new L5 for each firmware: this names no device for longer than its firmware lasts.
    ueid: String(leaf.certificate.serial),
    fwid: leaf.fwid,
    fwid_matched: opaque.fwid === undefined ? undefined : true,
    nonce,
    vbios_version: versionOf(opaque, model, "vbios"),
    ...(isSwitch(model) ? switchClaims(facts) : ownGpuClaims(facts)),
    opaque_version: opaque.version,
    unknown_opaque_types: opaque.unknown,
    not_understood: valueNames(opaque.unknownValues),
    ...prefixed("measurements.", measurementClaims(facts)),
    ...rimMembers(facts, "driver"),
    ...rimMembers(facts, "vbios"),
    nvidia: nvidiaClaims(facts),
  });
}

function switchClaims({ evidence }: GpuFacts): ClaimTree {
  const { lockStatus } = evidence.report.opaque;
  return { lock_status: lockStatus, locked: stated(lockStatus, LOCKED) };
}

function ownGpuClaims({ evidence }: GpuFacts): ClaimTree {
  const { driverVersion, mode, featureFlag, protectedPcie, project, projectSku, chipSku } = evidence.report.opaque;
  return {
    driver_version: driverVersion,
    mode,
    feature_flag: featureFlag,
    protected_pcie: stated(protectedPcie, ON),
    project,
    project_sku: projectSku,
    chip_sku: chipSku,
    nvml: evidence.settings,
  };
}

/** One mismatch that was not waived would have refused. */
function measurementClaims(facts: GpuFacts): ClaimTree {
  const { comparison } = facts;
  if (!comparison) return {};
  // Index, RIM, expected and measured value, and the reason for the waiver.
  const shown = (result: Comparison): ClaimTree => ({ ...result, rim: rimId(facts, result.source) });
  return {
    compared: comparison.length,
    matched: comparison.filter(isMatch).length,
    mismatches: [],
    waived: comparison.filter(({ reason }) => reason).map(shown),
  };
}

const stated = (value: number | undefined, wanted: number): boolean | undefined =>
  value === undefined ? undefined : value === wanted;

function rimMembers(facts: GpuFacts, source: Source): ClaimTree {
  const rim = facts.rims[source];
  if (!rim) return {};
  const { version, sha256, certificates } = rim.parsed;
  const [issued, expires] = rim.window.map(rfc3339);
  return prefixed(`${source}_rim.`, {
    id: rimId(facts, source),
    version,
    sha256,
    signer: certificates[0]?.name,
    revocation: revocationOf(rim.statuses),
    issued,
    expires,
    not_after: expires,
  });
}

/**
 * The id under which NVIDIA serves the RIM; what cannot stand in an id was not found by one. The project, SKU and chip
 * SKU of an LS10 are constants; the chip of a Blackwell is that of opaque field 35.
 */
function rimId(facts: GpuFacts, source: Source): string | undefined {
  const [kind, ...parts] = idParts(facts, source);
  const isId = parts.every((part) => part && /^[0-9A-Za-z.-]{1,24}$/.test(part) && /[^.]/.test(part));
  const id = [kind, ...parts].join("_");
  if (!isId) return undefined;
  return source === "driver" ? id : id.toUpperCase();
}

function idParts({ model, evidence }: GpuFacts, source: Source): readonly (string | undefined)[] {
  const { opaque } = evidence.report;
  const version = versionOf(opaque, model, source);
  const bios = version?.replaceAll(".", "");
  if (isSwitch(model)) return ["NV_SWITCH_BIOS_5612_0002_890", bios];
  if (source === "vbios") return ["NV_GPU_VBIOS", opaque.project, opaque.projectSku, opaque.chipSku, bios];
  const chip = model.architecture === "hopper" ? model.product : (opaque.chipInfo ?? DEFAULT_BLACKWELL);
  return [chip.startsWith("GH") ? "NV_GPU_DRIVER" : "NV_GPU_CC_DRIVER", chip, version];
}
