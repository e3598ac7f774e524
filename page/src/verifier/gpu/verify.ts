/**
 * Is this report genuine, and of a device that runs what NVIDIA published?
 *
 * Every check that can be run is run: a missing file must hide no forged one. What cannot run, because what it needs
 * was not found, is not evaluated. Of several failures the one with the lowest exit code speaks, the first of them in
 * the order of the procedure, and carries all checks.
 *
 * Nonce, topology and whether several devices belong together are judged elsewhere: one report alone cannot answer them.
 *
 * Spec: specs/nvidia-gpu.md, sections 5 to 12.
 */

import { type Check, check } from "../checks";
import type { Bytes } from "../bytes";
import type { Claims } from "../claims";
import { AttestError, refusalOf } from "../errors";
import type { Given, ParsedDevice, Verified } from "../formats";
import type { Status } from "../ocsp";
import type { Certificate } from "../x509";
import { Attempt, type Step, there } from "./attempt";
import type { DeviceModel, GpuLeaf } from "./certificates";
import { type DeviceRoot, findPath } from "./chain";
import { gpuClaims } from "./claims";
import { DEVICE_STEPS } from "./device_checks";
import { type ParsedGpuEvidence, parseDevice } from "./evidence";
import type { Result, Source } from "./measurements";
import type { OpaqueData } from "./opaque";
import { REFERENCE_STEPS } from "./reference_checks";
import type { VerifiedRim } from "./rim";
import { parseReport } from "./structure";

const PROCEDURE: readonly Step[] = [...DEVICE_STEPS, ...REFERENCE_STEPS];

/** A RIM that is relied on, and what shows that its signers are not revoked. */
export interface RimFound {
  readonly rim: VerifiedRim | undefined;
  readonly statuses: readonly Status[];
}

/** A report that an NVIDIA device signed, with everything that vouches for it. Built after the last check only. */
export interface VerifiedGpu extends Verified, DeviceModel {
  readonly kind: DeviceModel["kind"];
  readonly evidence: ParsedGpuEvidence;
  readonly opaque: OpaqueData;
  readonly nonce: Bytes;
  readonly leaf: GpuLeaf;
  /** L4. */
  readonly device: Certificate;
  /** L5, L4, L3 and L2. */
  readonly certificates: readonly Certificate[];
  readonly root: DeviceRoot;
  /** Type byte and PDI in hex. */
  readonly identity: string;
  readonly rims: Readonly<Record<Source, RimFound>>;
  /** The comparison with these RIMs, without any mismatch that was not waived; undefined without a RIM. */
  readonly measurements: readonly Result[] | undefined;
  /** As the report states it; undefined for a switch. */
  readonly driverVersion: string | undefined;
  /** Likewise; of a switch, its BIOS. */
  readonly vbiosVersion: string | undefined;
  readonly statuses: readonly Status[];
}

export function isVerifiedGpu(verified: Verified): verified is VerifiedGpu {
  return verified.kind === "nvidia-gpu" || verified.kind === "nvidia-switch";
}

/** A raw report. */
export function parseGpuReport(data: Bytes): ParsedDevice {
  return device({ report: parseReport(data) });
}

/** The JSON object of one device. */
export function parseGpuDevice(data: Bytes): ParsedDevice {
  return device(parseDevice(data));
}

function device(evidence: ParsedGpuEvidence): ParsedDevice {
  return { nonce: evidence.report.nonce, verify: (given) => verifyGpu(evidence, given) };
}

/**
 * Check that a device of NVIDIA signed this report, and that it measured what NVIDIA's RIMs say.
 *
 * `unchecked` may name `revocation`, which tolerates that no current answer about a certificate is at hand, and `rim`,
 * that no current RIM is. What is at hand and negative refuses all the same.
 *
 * @throws AttestError with all checks; the codes are those of `attest.evidence.gpu.verify`.
 */
export async function verifyGpu(evidence: ParsedGpuEvidence, given: Given): Promise<VerifiedGpu> {
  const path = await findPath(evidence.report, evidence.chain, given.endorsements);
  const attempt = new Attempt(evidence, path, given);
  const { checks, failures } = await runAll(attempt);
  if (failures.length) {
    const worst = failures.reduce((first, next) => (next.exitCode < first.exitCode ? next : first));
    worst.checks = checks;
    throw worst;
  }
  const found = verified(attempt, checks);
  const claims: Claims = gpuClaims(found);
  return { ...found, claims };
}

/** Take every step that can be taken, and tell each: it passed, it failed, or something was lacking. */
async function runAll(attempt: Attempt): Promise<{ checks: Check[]; failures: AttestError[] }> {
  const { measurements, opaque } = attempt.evidence.report;
  const got = `${measurements.length} measurements; opaque data of no known meaning: ${opaque.unknown.join(", ") || "none"}`;
  const failures: AttestError[] = [];
  const checks = [check("nvidia.format", "pass", "SPDM 1.1 request and response, nothing left over", got, "nvidia-gpu.md 2 to 4")];
  for (const step of PROCEDURE) checks.push(await runStep(step, attempt, failures));
  return { checks, failures };
}

async function runStep([name, clause, ready, run, tell]: Step, attempt: Attempt, failures: AttestError[]): Promise<Check> {
  const id = `nvidia.${name}`;
  if (!ready(attempt)) {
    return check(id, "not evaluated", "", attempt.used.size ? attempt.reasons() : "what it needs was not found", clause);
  }
  const failure = await refusalOf(() => run(attempt));
  if (failure instanceof AttestError) {
    const { facts } = failure;
    facts.check = id;
    facts.clause ??= clause;
    failures.push(failure);
    return check(id, "fail", facts.expected ?? "", facts.got ?? failure.message, clause);
  }
  const [expected, got, outcome = "pass"] = tell(attempt);
  return check(id, outcome, expected, got, clause);
}

function verified(attempt: Attempt, checks: readonly Check[]): Omit<VerifiedGpu, "claims"> {
  const { evidence, path } = attempt;
  const root = there(attempt.root);
  const rims = { driver: rimFound(attempt, "driver"), vbios: rimFound(attempt, "vbios") };
  const anchors = [root.anchor, rims.driver.rim?.anchor, rims.vbios.rim?.anchor];
  return {
    ...there(attempt.model),
    simulated: anchors.some((anchor) => anchor?.simulated),
    checks,
    evidence,
    opaque: evidence.report.opaque,
    nonce: evidence.report.nonce,
    leaf: there(attempt.leaf),
    device: there(path.device),
    certificates: path.certificates,
    chain: [...path.certificates, root.certificate ?? root.issuer],
    root,
    identity: there(attempt.identity),
    rims,
    measurements: attempt.comparison,
    driverVersion: attempt.isSwitch ? undefined : evidence.report.opaque.driverVersion,
    vbiosVersion: there(attempt.wanted.get("vbios")).version,
    statuses: attempt.statuses,
  };
}

function rimFound(attempt: Attempt, source: Source): RimFound {
  const judged = attempt.rims.get(source);
  return { rim: attempt.putAside.has(source) ? undefined : judged?.verified, statuses: judged?.statuses ?? [] };
}
