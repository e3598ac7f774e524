/**
 * Verification that a report is genuine, and that its device runs firmware and a driver that NVIDIA published.
 *
 * `GPU_STEPS` is the clause list. Every check that can be made is made: a missing file must hide no forged one. A check
 * that lacks what it needs is not evaluated. Of several failures the one with the lowest exit code speaks, the first of
 * them in the order of the procedure, and carries all checks.
 *
 * Nonce, topology and whether several devices belong together are judged elsewhere: one report alone cannot answer
 * them.
 *
 * Spec: specs/nvidia-gpu.md, sections 5 to 12.
 */

import { type Bytes, hex, rfc3339 } from "../bytes";
import { requireValid } from "../chain";
import { AttestError, need, refusalOf } from "../errors";
import type { Given, ParsedDevice } from "../evidence";
import type { Status } from "../ocsp";
import { named } from "../pool";
import { Procedure, same, tolerated } from "../procedure";
import type { Certificate } from "../x509";
import { requireNamed } from "../unknown_values";
import { DEVICE_ROOTS } from "./anchors";
import { type GpuLeaf, readIdentity, readLeaf, readModel } from "./certificates";
import { type PathCheck, type Root, findPath, findRoot, reportSignedBy, requireLink } from "./chain";
import { gpuClaims } from "./claims";
import { Decisions } from "./decisions";
import { type ParsedGpuEvidence, parseDevice } from "./evidence";
import type { AuthenticGpu, GpuFacts, VerifiedGpu } from "./facts";
import { type PresentedDevice, tolerancesOf } from "./presented";
import { SOURCES } from "./measurements";
import { compareWithRims, findConflicts, judgeRim } from "./reference_checks";
import { type ReliedRim, statusesOf, tellStatuses, windowOf } from "./references";
import { parseReport } from "./structure";
import { judgeSet } from "./topology";
import { GPU_STEPS, type GpuProcedure } from "./steps";

/** L4, L3 and L2, at the end of a path; L5 is made by the device itself, and no issuer can revoke it. */
const REVOCABLE = 3;

/** A raw report. */
export function parseGpuReport(data: Bytes): ParsedDevice {
  return device({ report: parseReport(data) });
}

/** The JSON object of one device. */
export async function parseGpuDevice(data: Bytes): Promise<ParsedDevice> {
  return device(await parseDevice(data));
}

function device(evidence: ParsedGpuEvidence): ParsedDevice {
  return {
    nonce: evidence.report.nonce,
    deviceKey: evidence.chain?.[1]?.spki,
    verify: (given) => verifyGpu(evidence, given),
    authenticate: (given) => authenticateGpu(evidence, given),
    judgeSet,
  };
}

/** Return the device that signed a report, whatever else is wrong; undefined when signature or chain do not hold. */
async function authenticateGpu(evidence: ParsedGpuEvidence, given: Given): Promise<AuthenticGpu | undefined> {
  const presented = await presentedDevice(evidence, given);
  const { path, identity, model } = presented;
  const root = await refusalOf(() => requireChain(presented));
  const isSigned = path.leaf && (await reportSignedBy(evidence.report, path.leaf));
  const isKnown = typeof identity === "string" && model && "product" in model;
  if (root instanceof AttestError || !isSigned || !isKnown) return undefined;
  return { facts: { evidence, identity, model } };
}

/**
 * Check that a device of NVIDIA signed this report, and that it measured what NVIDIA's RIMs say.
 *
 * `unchecked` may name `revocation`, which tolerates that no current answer about a certificate is available, and
 * `rim`, that no current RIM is available. An available negative answer is still refused.
 *
 * @throws AttestError with all checks; the codes are those of `attest.evidence.gpu.verify`.
 */
async function verifyGpu(evidence: ParsedGpuEvidence, given: Given): Promise<VerifiedGpu> {
  const presented = await presentedDevice(evidence, given);
  const procedure: GpuProcedure = new Procedure(GPU_STEPS, { prefix: "nvidia.", isIndependent: true });
  const decisions = new Decisions(given.unchecked);
  await procedure.attempt("format", (step) => {
    const { measurements, opaque } = evidence.report;
    const accepted = requireNamed(opaque.unknownValues, tolerancesOf(presented).opaque);
    const got = `${measurements.length} measurements`;
    step.tell("SPDM 1.1 measurements", accepted ? `${got}; ${accepted}` : got, accepted ? "warning" : "pass");
  });
  const root = await judgeDevice(procedure, presented, decisions);
  const statuses = await judgeRevocation(procedure, presented, root, decisions);
  const driver = await judgeRim(procedure, "driver", presented, decisions);
  const vbios = await judgeRim(procedure, "vbios", presented, decisions);
  const rims = { driver, vbios };
  await findConflicts(procedure, rims, decisions);
  const comparison = await compareWithRims(procedure, presented, rims, decisions);
  const checks = procedure.finish();
  // Nothing that a device needs is lacking once every step passed.
  const relied = Object.fromEntries(
    SOURCES.flatMap((source): [string, ReliedRim][] => {
      const { rim, isPutAside } = rims[source];
      return rim?.root && rim.window && !isPutAside ? [[source, { ...rim, root: rim.root, window: rim.window }]] : [];
    }),
  );
  const facts: GpuFacts = { ...requireFacts(presented), statuses: statuses ?? [], rims: relied, comparison };
  const { anchor, issuer } = procedure.require(root);
  const anchors = [anchor, ...Object.values(relied).map((rim) => rim.root.anchor)];
  return {
    kind: facts.model.kind,
    simulated: anchors.some(({ simulated }) => simulated),
    checks,
    chain: [...facts.certificates, issuer],
    claims: gpuClaims(facts),
    facts,
  };
}

/** Read what the device says of itself, and find its certificates. */
async function presentedDevice(evidence: ParsedGpuEvidence, given: Given): Promise<PresentedDevice> {
  const path = await findPath(evidence, given.endorsements, ...pathChecks(given));
  const [first] = path.certificates;
  const isReadable = first && (path.leaf ?? !path.failure);
  const leaf = isReadable ? await refusalOf(() => readLeaf(first)) : undefined;
  const l4 = path.device;
  const identity = l4 && (await refusalOf(() => readIdentity(l4)));
  const model = l4 && typeof identity === "string" ? await refusalOf(() => readModel(l4, identity)) : undefined;
  return { evidence, path, given, leaf, identity, model };
}

/** The checks of a path that choose among several in the pool: its root, its dates, and its revocation. */
function pathChecks({ endorsements, anchors, at, unchecked }: Given): readonly PathCheck[] {
  const rooted = (path: readonly Certificate[]): Promise<Root> => {
    const last = path.at(-1)!; // a path has one certificate at least
    return findRoot(DEVICE_ROOTS, last, named(endorsements, last.issuer), anchors);
  };
  return [
    async (path) => {
      await rooted(path);
    },
    async (path) => {
      for (const dated of [...path, (await rooted(path)).issuer]) requireValid(dated, at);
    },
    async (path) => {
      const { issuer } = await rooted(path);
      const statuses = await refusalOf(() => statusesOf(path.slice(-REVOCABLE), issuer, { endorsements, at }));
      if (statuses instanceof AttestError) tolerated(statuses, unchecked, "revocation");
    },
  ];
}

/** The facts of a device of which every step passed. */
function requireFacts({ evidence, path, leaf, identity, model }: PresentedDevice) {
  const isWhole = path.device && leaf && "fwid" in leaf && typeof identity === "string" && model && "product" in model;
  if (!isWhole) throw new TypeError("a step found nothing and refused nothing");
  return { evidence, certificates: path.certificates, device: path.device, leaf, identity, model };
}

// -- whether the report is a device's of NVIDIA

/** Take the steps about the device's certificates and the report's signature; return the root of the chain. */
async function judgeDevice(
  procedure: GpuProcedure,
  presented: PresentedDevice,
  decisions: Decisions,
): Promise<Root | undefined> {
  const { evidence, path, given, identity, model } = presented;
  const { report, statedNonce } = evidence;
  const leaf = found(presented.leaf);
  const root = await refusalOf(() => requireChain(presented));
  await procedure.attempt("chain", (step) => {
    if (root instanceof AttestError) throw root;
    if (identity instanceof AttestError) throw identity;
    step.tell("a pinned root", `${root.anchor.name}, key ${root.anchor.pin}`);
  });
  await procedure.attempt("arch", (step) => {
    step.need(found(root), decisions.lacking());
    const named = step.need(found(identity), decisions.lacking());
    if (model instanceof AttestError) throw model;
    const { kind, architecture, product } = step.need(model, decisions.lacking());
    same("gpu-arch-mismatch", "arch", architecture, evidence.arch ?? architecture);
    step.tell(architecture, `${kind}, ${product}, device ${named}`);
  });
  await procedure.attempt("stated_nonce", (step) => {
    const stated = step.need(statedNonce, decisions.lacking());
    step.tell(...same("gpu-stated-nonce-mismatch", "nonce", report.nonce, stated));
  });
  await procedure.attempt("chain_validity", (step) => {
    step.need(path.certificates[0], decisions.lacking());
    // Nested validity is not asked for: L5 and L4 begin before the certificates of their issuers.
    for (const dated of path.certificates) requireValid(dated, given.at);
    if (!(root instanceof AttestError)) requireValid(root.issuer, given.at);
    step.tell(rfc3339(given.at), windowOf(path.certificates).map(rfc3339).join(" to "));
  });
  await procedure.attempt("signature", async (step) => {
    const signer = step.need(path.leaf, decisions.lacking());
    const holds = await reportSignedBy(report, signer);
    need(holds, "signature", "gpu-signature-invalid", `a signature by ${signer.name}`, "another");
    step.tell("ECDSA P-384 with SHA-384 over request and response", `verifies with ${signer.name}`);
  });
  await procedure.attempt("fwid", (step) => {
    const { fwid } = step.need(leaf, decisions.lacking());
    step.tell(...same("gpu-fwid-mismatch", "FWID", fwid, step.need(report.opaque.fwid, decisions.lacking())));
  });
  await procedure.attempt("leaf_binding", (step) => {
    const key = step.need(leaf?.deviceKey, decisions.lacking());
    const l4 = step.need(path.device, decisions.lacking());
    step.tell(...same("gpu-leaf-binding-mismatch", "deviceID", hex(l4.spki), hex(key)));
  });
  return found(root);
}

const found = <T>(value: T | AttestError | undefined): T | undefined =>
  value instanceof AttestError ? undefined : value;

/** Require that the path is whole and leads to a pinned root. */
async function requireChain({ path, leaf, given }: PresentedDevice): Promise<Root> {
  const { certificates, roots, failure } = path;
  // That the leaf is malformed comes before that the path is not complete.
  const readable: GpuLeaf | undefined = requireReadable(leaf);
  if (failure) throw failure;
  const last = certificates.at(-1);
  if (!readable || !last) throw new TypeError("a path without a failure has a leaf");
  for (const [i, issuer] of certificates.slice(1).entries()) await requireLink(certificates[i]!, issuer);
  return findRoot(DEVICE_ROOTS, last, roots, given.anchors);
}

function requireReadable(leaf: GpuLeaf | AttestError | undefined): GpuLeaf | undefined {
  if (leaf instanceof AttestError) throw leaf;
  return leaf;
}

/** Ask about L4, L3 and L2. */
function judgeRevocation(
  procedure: GpuProcedure,
  presented: PresentedDevice,
  root: Root | undefined,
  decisions: Decisions,
): Promise<readonly Status[] | undefined> {
  return procedure.attempt("revocation", async (step) => {
    const { issuer } = step.need(root, decisions.lacking());
    const statuses = await refusalOf(() =>
      statusesOf(presented.path.certificates.slice(-REVOCABLE), issuer, presented.given),
    );
    if (statuses instanceof AttestError) decisions.tolerate(statuses, "revocation");
    const shown = statuses instanceof AttestError ? [] : statuses;
    step.tell(...tellStatuses(shown, decisions, tolerancesOf(presented).heldRimSigners));
    return shown;
  });
}
