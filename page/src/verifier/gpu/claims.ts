/**
 * What verified GPUs and NVSwitches state, by the names and in the order of `attest.evidence.gpu.claims`.
 *
 * A claim that the evidence does not carry is absent. Nothing in a report says whether developer tools were on: that is
 * in `nvml`, which a guest collects itself, so that it counts only through what the CPU signed for it.
 */

import { rfc3339 } from "../bytes";
import { type ClaimTree, type Claims, nestedClaims } from "../claims";
import type { Result, Source } from "./measurements";
import { nvidiaClaims, revocationOf } from "./nvidia_claims";
import { driverRimId, switchBiosRimId, vbiosRimId } from "./rim";
import type { VerifiedGpu } from "./verify";

type Subject = Omit<VerifiedGpu, "claims">;

const MODES = ["spt", "mpt", "protected-pcie"];
const LOCKED = 1;
const ON = 0xaa;
/** Where a Blackwell GPU does not state its chip. */
const DEFAULT_BLACKWELL = "GB100";

/** Return all claims, nested by their dotted names. */
export function gpuClaims(v: Subject): Claims {
  const { opaque, leaf } = v;
  return nestedClaims({
    architecture: v.architecture,
    product: v.product,
    device_identity: v.identity,
    hwmodel: v.device.commonName,
    // The device makes a new L5 for each firmware: this names no device for longer than its firmware lasts.
    ueid: String(leaf.certificate.serial),
    fwid: leaf.fwid,
    fwid_matched: opaque.fwid === undefined ? undefined : true,
    nonce: v.nonce,
    ...(v.kind === "nvidia-switch" ? switchMembers(v) : gpuMembers(v)),
    nvidia: nvidiaClaims(v),
  });
}

function gpuMembers(v: Subject): ClaimTree {
  const { opaque } = v;
  const { settings } = v.evidence;
  return {
    driver_version: v.driverVersion,
    vbios_version: v.vbiosVersion,
    mode: MODES[opaque.featureFlag ?? -1],
    feature_flag: opaque.featureFlag,
    protected_pcie: opaque.protectedPcie === undefined ? undefined : opaque.protectedPcie === ON,
    project: opaque.project,
    project_sku: opaque.projectSku,
    chip_sku: opaque.chipSku,
    ...common(v),
    ...rimMembers(v, "driver"),
    ...rimMembers(v, "vbios"),
    nvml: settings,
  };
}

function switchMembers(v: Subject): ClaimTree {
  const { lockStatus } = v.opaque;
  return {
    vbios_version: v.vbiosVersion,
    lock_status: lockStatus,
    locked: lockStatus === undefined ? undefined : lockStatus === LOCKED,
    ...common(v),
    ...rimMembers(v, "vbios"),
  };
}

function common(v: Subject): ClaimTree {
  const found = v.measurements;
  return {
    opaque_version: v.opaque.version,
    unknown_opaque_types: v.opaque.unknown,
    "measurements.compared": found?.length,
    "measurements.matched": found?.filter((result) => result.matched).length,
    "measurements.mismatches": found && [], // one that was not waived would have refused
    "measurements.waived": found?.filter((result) => result.waived !== undefined).map((result) => difference(v, result)),
  };
}

/** Describe what differs: where, in which RIM, what was expected and what is there. */
function difference(v: Subject, { index, source, expected, got, waived }: Result): ClaimTree {
  return { index, source, expected, rim: rimId(v, source), got, reason: waived };
}

function rimMembers(v: Subject, source: Source): ClaimTree {
  const { rim, statuses } = v.rims[source];
  if (!rim) return {};
  const name = `${source}_rim`;
  return {
    [`${name}.id`]: rimId(v, source),
    [`${name}.version`]: rim.parsed.version,
    [`${name}.sha256`]: rim.parsed.sha256,
    [`${name}.signer`]: rim.signers[0].name,
    [`${name}.revocation`]: revocationOf(statuses),
    [`${name}.issued`]: rfc3339(rim.notBefore),
    [`${name}.expires`]: rfc3339(rim.notAfter),
    [`${name}.not_after`]: rfc3339(rim.notAfter),
  };
}

/** The id under which NVIDIA serves the RIM; what cannot stand in an id was not found by one. */
function rimId(v: Subject, source: Source): string | undefined {
  const { project, projectSku, chipSku, chipInfo } = v.opaque;
  const version = source === "driver" ? v.driverVersion : v.vbiosVersion;
  if (version === undefined) return undefined;
  if (v.kind === "nvidia-switch") return switchBiosRimId(version);
  if (source === "driver") return driverRimId(v.architecture === "hopper" ? v.product : (chipInfo ?? DEFAULT_BLACKWELL), version);
  if (project === undefined || projectSku === undefined || chipSku === undefined) return undefined;
  return vbiosRimId(project, projectSku, chipSku, version);
}
