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
import type { ClaimTree } from "../claims";
import { type Status, isAnswer } from "../ocsp";
import { conflicts } from "./measurements";
import type { RimFound, VerifiedGpu } from "./verify";

type Subject = Omit<VerifiedGpu, "claims">;

/** NVIDIA's enterprise number, the manufacturer in every RIM. */
const OEM_ID = "5703";
const STEPS = ["fetched", "schema-validated", "signature-verified", "version-match", "measurements-available"];

/** Return the claims of a device as NVIDIA's verifiers name them. */
export function nvidiaClaims(v: Subject): ClaimTree {
  const isSwitch = v.kind === "nvidia-switch";
  return {
    hwmodel: v.device.commonName,
    ueid: String(v.leaf.certificate.serial),
    oemid: OEM_ID,
    eat_nonce: hex(v.nonce),
    "x-nvidia-device-type": isSwitch ? "nvswitch" : "gpu",
    ...(isSwitch ? switchClaims(v) : gpuClaims(v)),
    ...results(v, isSwitch),
  };
}

/** Whether what was measured is what NVIDIA published: all of it, with every RIM at hand; a mismatch was refused. */
function results({ measurements, rims }: Subject, isSwitch: boolean): ClaimTree {
  const complete = rims.vbios.rim && (isSwitch || rims.driver.rim);
  return measurements && complete ? { measres: "success", secboot: true, dbgstat: "disabled" } : { measres: "not-run" };
}

function gpuClaims(v: Subject): ClaimTree {
  const prefix = "x-nvidia-gpu-";
  const [driver, vbios] = [v.rims.driver.rim, v.rims.vbios.rim];
  const bothRims = driver && vbios;
  return {
    [`${prefix}claims-version`]: "3.0",
    [`${prefix}driver-version`]: v.driverVersion,
    [`${prefix}vbios-version`]: v.vbiosVersion,
    ...report(v, prefix),
    ...rimClaims(`${prefix}driver-rim`, v.rims.driver),
    ...rimClaims(`${prefix}vbios-rim`, v.rims.vbios),
    [`${prefix}vbios-index-no-conflict`]: bothRims && !conflicts(driver.parsed, vbios.parsed).length,
    [`${prefix}switch-pdis`]: connected(v.opaque.switchPdis),
  };
}

function switchClaims(v: Subject): ClaimTree {
  const prefix = "x-nvidia-switch-";
  return {
    [`${prefix}bios-version`]: v.vbiosVersion,
    ...report(v, prefix),
    ...rimClaims(`${prefix}bios-rim`, v.rims.vbios),
    [`${prefix}pdi`]: v.opaque.ownPdi,
    [`${prefix}gpu-pdis`]: connected(v.opaque.gpuPdis),
  };
}

/** Name each device at the other end once; zero is a link that is off. */
function connected(pdis: readonly string[] | undefined): readonly string[] | undefined {
  return pdis && [...new Set(pdis)].filter((pdi) => /[^0]/.test(pdi));
}

/** Say what verification established, without which there would be no verified device. */
function report(v: Subject, prefix: string): ClaimTree {
  const name = `${prefix}attestation-report`;
  return {
    [`${prefix}arch-check`]: true,
    [`${name}-parsed`]: true,
    [`${name}-signature-verified`]: true,
    [`${name}-cert-chain`]: chain(Math.min(...v.certificates.map((certificate) => certificate.notAfter)), v.statuses),
    [`${name}-cert-chain-fwid-match`]: v.opaque.fwid === undefined ? undefined : true,
  };
}

/** Say what was established about a RIM; about one that is not there, only that. */
function rimClaims(prefix: string, { rim, statuses }: RimFound): ClaimTree {
  if (!rim) return { [`${prefix}-fetched`]: false };
  const steps = Object.fromEntries(STEPS.map((step) => [`${prefix}-${step}`, true]));
  return { ...steps, [`${prefix}-cert-chain`]: chain(rim.notAfter, statuses) };
}

/** What the answers about a chain come to: `good`, or why a tolerated one is on hold; undefined without any. */
export function revocationOf(statuses: readonly Status[]): string | undefined {
  for (const status of statuses) if (isAnswer(status) && status.status !== "good") return status.reason ?? "unspecified";
  return statuses.length ? "good" : undefined;
}

/** Describe a chain: valid, or it would not be here; its revocation only as far as it was judged. */
function chain(notAfter: number, statuses: readonly Status[]): ClaimTree {
  const revocation = revocationOf(statuses);
  const held = revocation !== undefined && revocation !== "good";
  return {
    "x-nvidia-cert-expiration-date": rfc3339(notAfter),
    "x-nvidia-cert-status": held ? "revoked" : "valid",
    "x-nvidia-cert-ocsp-status": revocation === undefined ? "unknown" : held ? "revoked" : "good",
    "x-nvidia-cert-ocsp-response-valid": revocation === undefined ? undefined : true,
    "x-nvidia-cert-revocation-reason": held ? revocation : undefined,
  };
}
