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
import type { ClaimTree, ClaimValue } from "../claims";
import type { Status } from "../ocsp";
import { type Passed, isSwitch, windowOf } from "./attempt";
import { prefixed, revocationOf } from "./claims";
import { type JudgedRim, versionOf } from "./references";

/** NVIDIA's enterprise number, the manufacturer in every RIM. */
const OEM_ID = "5703";
const STEPS = ["fetched", "schema-validated", "signature-verified", "version-match", "measurements-available"];

/** Return the claims of a device as NVIDIA's verifiers name them. */
export function nvidiaClaims(attempt: Passed): ClaimTree {
  const { evidence, path, leaf, model, rims, statuses, comparison } = attempt;
  const { opaque, nonce } = evidence.report;
  const { driver, vbios } = rims;
  const onSwitch = isSwitch(attempt);
  const version = versionOf(opaque, model, "vbios");
  // What was measured is what NVIDIA published: all of it, with every RIM at hand; a mismatch was refused.
  const isComplete = comparison && vbios && (onSwitch || driver);
  const common = {
    "arch-check": true,
    // What verification established, without which there would be no verified device.
    ...prefixed("attestation-report-", {
      parsed: true,
      "signature-verified": true,
      "cert-chain": chain(windowOf(path.certificates)[1], statuses),
      "cert-chain-fwid-match": opaque.fwid && true,
    }),
  };
  return {
    hwmodel: path.device!.commonName,
    ueid: String(leaf.certificate.serial),
    oemid: OEM_ID,
    eat_nonce: hex(nonce),
    "x-nvidia-device-type": onSwitch ? "nvswitch" : "gpu",
    ...(onSwitch
      ? prefixed("x-nvidia-switch-", {
          ...common,
          "bios-version": version,
          ...rim("bios", vbios),
          pdi: opaque.ownPdi,
          "gpu-pdis": connected(opaque.gpuPdis),
        })
      : prefixed("x-nvidia-gpu-", {
          ...common,
          "claims-version": "3.0",
          "driver-version": opaque.driverVersion,
          "vbios-version": version,
          ...rim("driver", driver),
          ...rim("vbios", vbios),
          "vbios-index-no-conflict": driver && vbios && true, // or it would have been refused
          "switch-pdis": connected(opaque.switchPdis),
        })),
    ...(isComplete ? { measres: "success", secboot: true, dbgstat: "disabled" } : { measres: "not-run" }),
  };
}

/** Name each device at the other end once; zero is a link that is off. */
const connected = (pdis: readonly string[] | undefined): readonly string[] | undefined =>
  pdis && [...new Set(pdis)].filter((pdi) => /[^0]/.test(pdi));

/** Say what was established about a RIM; about one that is not there, only that. */
function rim(part: string, found: JudgedRim | undefined): ClaimTree {
  const steps: Record<string, ClaimValue> = found ? { "cert-chain": chain(found.window![1], found.statuses) } : {};
  for (const step of found ? STEPS : STEPS.slice(0, 1)) steps[step] = Boolean(found);
  return prefixed(`${part}-rim-`, steps);
}

/** Describe a chain: valid, or it would not be here; its revocation only as far as it was judged. */
function chain(notAfter: number, statuses: readonly Status[]): ClaimTree {
  const revocation = revocationOf(statuses);
  const held = revocation !== "good" && revocation;
  return prefixed("x-nvidia-cert-", {
    "expiration-date": rfc3339(notAfter),
    status: held ? "revoked" : "valid",
    "ocsp-status": held ? "revoked" : (revocation ?? "unknown"),
    "ocsp-response-valid": revocation && true,
    "revocation-reason": held || undefined,
  });
}
