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

import { type Bytes, hex, rfc3339 } from "../bytes";
import { requireValid } from "../chain";
import { type Check, type Told, check, taken } from "../checks";
import { AttestError, need, refusalOf } from "../errors";
import type { Given, ParsedDevice, Verified } from "../formats";
import { type Attempt, type Passed, type Step, reasons, same, tellStatuses, tolerate, windowOf } from "./attempt";
import { readIdentity, readLeaf, readModel } from "./certificates";
import { findPath, findRoot, reportSignedBy, requireLink } from "./chain";
import { gpuClaims } from "./claims";
import { type ParsedGpuEvidence, parseDevice } from "./evidence";
import { SOURCES } from "./measurements";
import { REFERENCE_STEPS, statusesOf, throwWorst } from "./references";
import { parseReport } from "./structure";

/** A report that an NVIDIA device signed, with everything that vouches for it. Built after the last check only. */
export interface VerifiedGpu extends Verified {
  readonly attempt: Passed;
}

/** A raw report. */
export function parseGpuReport(data: Bytes): ParsedDevice {
  return device({ report: parseReport(data) });
}

/** The JSON object of one device. */
export async function parseGpuDevice(data: Bytes): Promise<ParsedDevice> {
  return device(await parseDevice(data));
}

function device(evidence: ParsedGpuEvidence): ParsedDevice {
  return { nonce: evidence.report.nonce, verify: (given) => verifyGpu(evidence, given) };
}

async function chain(attempt: Attempt): Promise<Told> {
  const { certificates, roots, device: l4, failure, leaf } = attempt.path;
  // What is no device is refused below, or with the architecture; here it only chooses RIMs.
  if (l4) await refusalOf(() => void (attempt.model = readModel(l4, (attempt.identity = readIdentity(l4)))));
  if (failure && !leaf) throw failure;
  attempt.leaf = await readLeaf(certificates[0]!);
  if (failure) throw failure;
  for (const [i, issuer] of certificates.slice(1).entries()) await requireLink(certificates[i]!, issuer);
  attempt.root = await findRoot("nvidia-device-root", certificates.at(-1)!, roots, attempt.given.anchors);
  attempt.identity = readIdentity(l4!);
  const { anchor } = attempt.root;
  return ["a pinned root", `${anchor.name}, ${anchor.pin}`];
}

/** Ask about L4, L3 and L2; L5 is made by the device itself, and nobody can revoke it. */
async function revocation(attempt: Attempt): Promise<Told> {
  const found = await refusalOf(() =>
    statusesOf(attempt.path.certificates.slice(1), attempt.root!.issuer, attempt.given),
  );
  if (found instanceof AttestError) tolerate(attempt, found, "revocation");
  else attempt.statuses = found;
  return tellStatuses(attempt, attempt.statuses);
}

/** Whether the report is a device's of NVIDIA, and whether that measured what NVIDIA published, in order. */
const PROCEDURE: readonly Step[] = [
  ["chain", "nvidia-gpu.md 6.1, 6.2", () => true, chain],
  [
    "arch",
    "nvidia-gpu.md 6.1, 7, 16",
    ({ root, identity }) => root && identity,
    (attempt) => {
      const { kind, architecture, product } = (attempt.model = readModel(attempt.path.device!, attempt.identity!));
      same("gpu-arch-mismatch", architecture, attempt.evidence.arch ?? architecture);
      return [architecture, `${kind}, ${product}, device ${attempt.identity}`];
    },
  ],
  [
    "stated_nonce",
    "nvidia-gpu.md 16",
    ({ evidence }) => evidence.statedNonce,
    ({ evidence }) => same("gpu-stated-nonce-mismatch", hex(evidence.report.nonce), hex(evidence.statedNonce!)),
  ],
  [
    "chain_validity",
    "RFC 5280, 4.1.2.5; nvidia-gpu.md 6.1",
    ({ path }) => path.certificates.length,
    // Nested validity is not asked for: L5 and L4 begin before the certificates of their issuers.
    ({ path, root, given }) => {
      for (const dated of [...path.certificates, root?.issuer]) if (dated) requireValid(dated, given.at);
      return [rfc3339(given.at), windowOf(path.certificates).map(rfc3339)];
    },
  ],
  [
    "signature",
    "nvidia-gpu.md 5",
    ({ path }) => path.leaf,
    async ({ evidence, path }) => {
      const { name } = path.leaf!;
      need(await reportSignedBy(evidence.report, path.leaf!), "signature", "gpu-signature-invalid", name, "another");
      return [name, "valid"];
    },
  ],
  [
    "fwid",
    "nvidia-gpu.md 7",
    ({ leaf, evidence }) => leaf && evidence.report.opaque.fwid,
    ({ leaf, evidence }) => same("gpu-fwid-mismatch", leaf!.fwid, evidence.report.opaque.fwid!),
  ],
  [
    "leaf_binding",
    "nvidia-gpu.md 7",
    ({ leaf, path }) => leaf?.deviceKey && path.device,
    ({ leaf, path }) => same("gpu-leaf-binding-mismatch", hex(path.device!.spki), hex(leaf!.deviceKey!)),
  ],
  ["revocation", "RFC 6960; nvidia-gpu.md 8", ({ root }) => root, revocation],
  ...REFERENCE_STEPS,
];

/**
 * Check that a device of NVIDIA signed this report, and that it measured what NVIDIA's RIMs say.
 *
 * `unchecked` may name `revocation`, which tolerates that no current answer about a certificate is at hand, and `rim`,
 * that no current RIM is. What is at hand and negative refuses all the same.
 *
 * @throws AttestError with all checks; the codes are those of `attest.evidence.gpu.verify`.
 */
async function verifyGpu(evidence: ParsedGpuEvidence, given: Given): Promise<VerifiedGpu> {
  const path = await findPath(evidence, given.endorsements);
  const attempt: Attempt = { evidence, path, given, statuses: [], rims: {}, used: new Set() };
  const { measurements } = evidence.report;
  const checks = [
    check("nvidia.format", "pass", "SPDM 1.1", `${measurements.length} measurements`, "nvidia-gpu.md 2 to 4"),
  ];
  const failures: AttestError[] = [];
  // Each step that can be taken: it passed, it failed, or something was lacking.
  for (const [name, clause, ready, run] of PROCEDURE) {
    const id = `nvidia.${name}`;
    const lacking = attempt.used.size ? reasons(attempt) : "not found";
    const [told, failure] = ready(attempt)
      ? await taken(id, clause, () => run(attempt))
      : [check(id, "not evaluated", "", lacking, clause)];
    checks.push(told);
    if (failure) failures.push(Object.assign(failure, { checks }));
  }
  throwWorst(failures);
  return verified(attempt as Passed, checks);
}

/** All that was found: nothing that a device needs is lacking once every step passed. */
function verified(attempt: Passed, checks: readonly Check[]): VerifiedGpu {
  const { root, model, rims, path } = attempt;
  for (const source of SOURCES) if (rims[source]?.isPutAside) delete rims[source];
  const { kind } = model;
  const simulated = [root, rims.driver?.root, rims.vbios?.root].some((each) => each?.anchor.simulated);
  return { kind, simulated, checks, chain: [...path.certificates, root.issuer], claims: gpuClaims(attempt), attempt };
}
