/**
 * The facts of a verified device under NVIDIA's names, claims version 3.0, so that a policy written for NVIDIA's SDKs
 * can be carried over.
 *
 * NOTE: `secboot` and `dbgstat` carry no information. NVIDIA's verifiers derive both from `measres`, and so does this
 * module: that measurements equal their reference values. No report says that boot was secure or debugging disabled.
 *
 * Spec: specs/nvidia-gpu.md, section 17.2.
 */

import { hex, rfc3339 } from "../bytes";
import { type ClaimTree, type ClaimValue, prefixed } from "../claims";
import type { Status } from "../ocsp";
import type { GpuFacts } from "./facts";
import { isSwitch } from "./presented";
import { type ReliedRim, isHeld, versionOf, windowOf } from "./references";

/** NVIDIA's enterprise number, the manufacturer in every RIM. */
const OEM_ID = "5703";
const STEPS = ["fetched", "schema-validated", "signature-verified", "version-match", "measurements-available"];

/** Return the claims of a device as NVIDIA's verifiers name them. */
export function nvidiaClaims(facts: GpuFacts): ClaimTree {
  const { evidence, device, leaf, model, rims, comparison } = facts;
  const onSwitch = isSwitch(model);
  // All measurements equal NVIDIA's reference values, with every RIM available; a mismatch was refused.
  const isComplete = comparison && rims.vbios && (onSwitch || rims.driver);
  return {
    hwmodel: device.commonName,
    ueid: String(leaf.certificate.serial),
    oemid: OEM_ID,
    eat_nonce: hex(evidence.report.nonce),
    "x-nvidia-device-type": onSwitch ? "nvswitch" : "gpu",
    ...(onSwitch ? prefixed("x-nvidia-switch-", switchMembers(facts)) : prefixed("x-nvidia-gpu-", gpuMembers(facts))),
    ...(isComplete ? { measres: "success", secboot: true, dbgstat: "disabled" } : { measres: "not-run" }),
  };
}

/** Facts that hold for every verified device. */
function commonMembers({ evidence, certificates, statuses }: GpuFacts): ClaimTree {
  return {
    "arch-check": true,
    ...prefixed("attestation-report-", {
      parsed: true,
      "signature-verified": true,
      "cert-chain": chain(windowOf(certificates)[1], statuses),
      "cert-chain-fwid-match": evidence.report.opaque.fwid === undefined ? undefined : true,
    }),
  };
}

function switchMembers(facts: GpuFacts): ClaimTree {
  const { opaque } = facts.evidence.report;
  return {
    ...commonMembers(facts),
    "bios-version": versionOf(opaque, facts.model, "vbios"),
    ...rim("bios", facts.rims.vbios),
    pdi: opaque.ownPdi,
    "gpu-pdis": connected(opaque.gpuPdis),
  };
}

function gpuMembers(facts: GpuFacts): ClaimTree {
  const { opaque } = facts.evidence.report;
  const { driver, vbios } = facts.rims;
  return {
    ...commonMembers(facts),
    "claims-version": "3.0",
    "driver-version": opaque.driverVersion,
    "vbios-version": versionOf(opaque, facts.model, "vbios"),
    ...rim("driver", driver),
    ...rim("vbios", vbios),
    // A conflict would have been refused.
    "vbios-index-no-conflict": driver && vbios ? true : undefined,
    "switch-pdis": connected(opaque.switchPdis),
  };
}

/** Say what the answers about a chain come to: `good`, or why a tolerated one is on hold; undefined without any. */
export function revocationOf(statuses: readonly Status[]): string | undefined {
  if (!statuses.length) return undefined;
  return statuses.some(isHeld) ? "certificateHold" : "good";
}

/** Name each device at the other end once; zero is a link that is off. */
const connected = (pdis: readonly string[] | undefined): readonly string[] | undefined =>
  pdis && [...new Set(pdis)].filter((pdi) => /[^0]/.test(pdi));

/** Say what was established about a RIM; about one that is not there, only that. */
function rim(part: string, found: ReliedRim | undefined): ClaimTree {
  const steps: Record<string, ClaimValue> = found ? { "cert-chain": chain(found.window[1], found.statuses) } : {};
  for (const step of found ? STEPS : STEPS.slice(0, 1)) steps[step] = Boolean(found);
  return prefixed(`${part}-rim-`, steps);
}

/** Describe a chain: valid, or it would not be here; its revocation only as far as it was judged. */
function chain(notAfter: number, statuses: readonly Status[]): ClaimTree {
  const revocation = revocationOf(statuses);
  const isOnHold = revocation !== undefined && revocation !== "good";
  return prefixed("x-nvidia-cert-", {
    "expiration-date": rfc3339(notAfter),
    status: isOnHold ? "revoked" : "valid",
    "ocsp-status": isOnHold ? "revoked" : (revocation ?? "unknown"),
    "ocsp-response-valid": revocation === undefined ? undefined : true,
    "revocation-reason": isOnHold ? revocation : undefined,
  });
}
