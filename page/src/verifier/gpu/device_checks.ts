/**
 * The checks of a device and its report: chain, architecture, signature, firmware id, revocation.
 *
 * Spec: specs/nvidia-gpu.md, sections 5 to 8.
 */

import { hex, rfc3339 } from "../bytes";
import { AttestError, refusal, refusalOf } from "../errors";
import { type Attempt, type Step, names, signerText, tellStatuses, there, window } from "./attempt";
import { readIdentity, readLeaf, readModel } from "./certificates";
import { findRoot, reportSignedBy, requireLinked, requirePathValid } from "./chain";
import { statusesOf } from "./references";

async function chain(attempt: Attempt): Promise<void> {
  const { path } = attempt;
  const { device, failure } = path;
  if (device) {
    // It is refused below, or with the architecture; here it only chooses RIMs.
    await refusalOf(() => {
      attempt.identity = readIdentity(device);
      attempt.model = readModel(device, attempt.identity);
    });
  }
  if (failure && !path.leaf) throw failure;
  attempt.leaf = await readLeaf(there(path.certificates[0]));
  if (failure) throw failure;
  await requireLinked(path);
  attempt.root = await findRoot(path, attempt.given.anchors);
  attempt.identity = readIdentity(there(device));
}

function arch(attempt: Attempt): void {
  const { path, evidence, identity } = attempt;
  const model = readModel(there(path.device), there(identity));
  attempt.model = model;
  requireSame("gpu-arch-mismatch", "arch", model.architecture, evidence.arch?.toLowerCase() ?? model.architecture);
}

function requireSame(code: string, field: string, expected: string, got: string): void {
  if (expected !== got) throw refusal("binding", code, expected, got, { field });
}

async function signature({ evidence: { report }, path }: Attempt): Promise<void> {
  const leaf = there(path.leaf);
  if (await reportSignedBy(report, leaf)) return;
  const expected = `ECDSA P-384 with SHA-384 by ${leaf.name}`;
  throw refusal("signature", "gpu-signature-invalid", expected, "another", { field: "signature", offset: report.signedBytes.length });
}

/** Ask about L4, L3 and L2; L5 is made by the device itself, and nobody can revoke it. */
async function revocation(attempt: Attempt): Promise<void> {
  const { endorsements, at } = attempt.given;
  const certificates = attempt.path.certificates.slice(1);
  const found = await refusalOf(() => statusesOf(certificates, there(attempt.root).issuer, endorsements, at));
  if (found instanceof AttestError) attempt.tolerate(found, "revocation");
  else attempt.statuses = found;
}

/** Whether the report is a device's of NVIDIA, in order. */
export const DEVICE_STEPS: readonly Step[] = [
  [
    "chain",
    "nvidia-gpu.md 6.1, 6.2",
    () => true,
    chain,
    ({ path, root }) => {
      const { anchor } = there(root);
      return ["four certificates that lead to a pinned NVIDIA root", `${names([...path.certificates, anchor])}, key ${anchor.pin}`];
    },
  ],
  [
    "arch",
    "nvidia-gpu.md 6.1, 7, 16",
    ({ root, identity }) => root && identity,
    arch,
    ({ evidence, model, identity }) => {
      const { kind, architecture, product } = there(model);
      return [`a known device, ${evidence.arch ?? "of any kind"}`, `${kind}, ${architecture} (${product}), device ${identity}`];
    },
  ],
  [
    "stated_nonce",
    "nvidia-gpu.md 16",
    ({ evidence }) => evidence.statedNonce,
    ({ evidence }) => requireSame("gpu-stated-nonce-mismatch", "nonce", hex(evidence.report.nonce), hex(there(evidence.statedNonce))),
    ({ evidence }) => ["the nonce of the report", hex(evidence.report.nonce)],
  ],
  [
    "chain_validity",
    "RFC 5280, 4.1.2.5; nvidia-gpu.md 6.1",
    ({ path }) => path.certificates.length,
    ({ path, root, given }) => requirePathValid(path, root, given.at),
    ({ path, given }) => [rfc3339(given.at), window(path.certificates)],
  ],
  [
    "signature",
    "nvidia-gpu.md 5",
    ({ path }) => path.leaf,
    signature,
    ({ evidence, path }) => [`ECDSA P-384 with SHA-384 over ${evidence.report.signedBytes.length} bytes`, signerText(there(path.leaf))],
  ],
  [
    "fwid",
    "nvidia-gpu.md 7",
    ({ leaf, evidence }) => leaf && evidence.report.opaque.fwid,
    ({ leaf, evidence }) => requireSame("gpu-fwid-mismatch", "FWID", there(leaf).fwid, there(evidence.report.opaque.fwid)),
    ({ leaf, evidence }) => [there(leaf).fwid, there(evidence.report.opaque.fwid)],
  ],
  [
    "leaf_binding",
    "nvidia-gpu.md 7",
    ({ leaf, path }) => leaf?.deviceKey && path.device,
    ({ leaf, path }) =>
      requireSame("gpu-leaf-binding-mismatch", "deviceID", hex(there(path.device).spki), hex(there(leaf?.deviceKey))),
    () => ["the key of the device that issued it", "the same key"],
  ],
  [
    "revocation",
    "RFC 6960; nvidia-gpu.md 8",
    ({ root }) => root,
    revocation,
    (attempt) => tellStatuses(attempt, attempt.path.certificates.slice(1), attempt.statuses),
  ],
];
