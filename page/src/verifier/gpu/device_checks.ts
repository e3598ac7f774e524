/**
 * The checks of a device and its report: chain, architecture, signature, firmware id, revocation.
 *
 * Spec: specs/nvidia-gpu.md, sections 5 to 8.
 */

import { equal, hex, rfc3339 } from "../bytes";
import { AttestError, fail, refusalOf } from "../errors";
import { type Attempt, type Step, tellStatuses, there } from "./attempt";
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
  attempt.leaf = readLeaf(there(path.certificates[0]));
  if (failure) throw failure;
  await requireLinked(path);
  attempt.root = await findRoot(path, attempt.given.anchors);
  attempt.identity = readIdentity(there(device));
}

function arch(attempt: Attempt): void {
  const device = there(attempt.path.device);
  const stated = attempt.evidence.arch;
  const model = readModel(device, there(attempt.identity));
  attempt.model = model;
  if (stated === undefined || stated.toLowerCase() === model.architecture) return;
  fail("binding", "gpu-arch-mismatch", `the evidence says ${stated} and the certificate is of ${device.name}`, {
    field: "arch",
    expected: model.architecture.toUpperCase(),
    got: stated,
  });
}

function statedNonce({ evidence }: Attempt): void {
  const [expected, got] = [hex(evidence.report.nonce), hex(there(evidence.statedNonce))];
  if (expected === got) return;
  const problem = "the nonce that stands beside the report is not the report's";
  fail("binding", "gpu-stated-nonce-mismatch", problem, { field: "nonce", offset: 4, expected, got });
}

async function signature({ evidence: { report }, path }: Attempt): Promise<void> {
  const leaf = there(path.leaf);
  if (await reportSignedBy(report, leaf)) return;
  const { length } = report.signedBytes;
  fail("signature", "gpu-signature-invalid", "the report's signature does not verify with the key of its certificate", {
    field: "signature",
    offset: length,
    expected: `ECDSA P-384 with SHA-384 by ${leaf.name} over ${length} bytes`,
    got: "a signature that does not verify",
  });
}

function fwid(attempt: Attempt): void {
  const [expected, got] = [there(attempt.leaf).fwid, there(attempt.evidence.report.opaque.fwid)];
  if (expected === got) return;
  const problem = "the report states another firmware id than the certificate of its key";
  fail("binding", "gpu-fwid-mismatch", problem, { field: "FWID", expected, got });
}

function lacksFwid({ leaf, evidence }: Attempt): string | undefined {
  if (!leaf) return "there is no certificate with a firmware id";
  return evidence.report.opaque.fwid === undefined ? "the report states no firmware id" : undefined;
}

function leafBinding(attempt: Attempt): void {
  const [leaf, device] = [there(attempt.leaf), there(attempt.path.device)];
  const key = there(leaf.deviceKey);
  if (equal(key, device.spki)) return;
  const problem = `${leaf.certificate.name} was made by another device than ${device.name}`;
  fail("binding", "gpu-leaf-binding-mismatch", problem, { field: "deviceID", expected: hex(device.spki), got: hex(key) });
}

function lacksBinding({ leaf, path }: Attempt): string | undefined {
  if (!leaf || !path.device) return "there are no certificates of key and device";
  return leaf.deviceKey ? undefined : "the certificate's firmware id carries no device key";
}

/** Ask about L4, L3 and L2; L5 is made by the device itself, and nobody can revoke it. */
async function revocation(attempt: Attempt): Promise<void> {
  const { endorsements, at } = attempt.given;
  const certificates = attempt.path.certificates.slice(1);
  const found = await refusalOf(() => statusesOf(certificates, there(attempt.root).issuer, endorsements, at));
  if (found instanceof AttestError) attempt.tolerate(found, "revocation");
  else attempt.statuses = found;
}

function names(certificates: readonly { readonly name: string }[]): string {
  return certificates.map((certificate) => certificate.name).join(" < ");
}

/** Whether the report is a device's of NVIDIA, in order. */
export const DEVICE_STEPS: readonly Step[] = [
  {
    id: "nvidia.chain",
    clause: "nvidia-gpu.md 6.1, 6.2",
    lacks: () => undefined,
    run: chain,
    tell: ({ path, root }) => {
      const { anchor } = there(root);
      const got = `${names([...path.certificates, anchor])}, key ${anchor.pin}`;
      return ["four certificates that lead to a pinned NVIDIA root", got];
    },
  },
  {
    id: "nvidia.arch",
    clause: "nvidia-gpu.md 6.1, 7, 16",
    lacks: ({ root, identity }) => (root && identity ? undefined : "the certificate chain does not hold"),
    run: arch,
    tell: ({ evidence, model, identity }) => {
      const { kind, architecture, product } = there(model);
      const stated = evidence.arch;
      const expected = stated === undefined ? "a known GPU or NVSwitch" : `a device of ${stated}, as the evidence says`;
      return [expected, `${kind}, ${architecture} (${product}), device ${there(identity)}`];
    },
  },
  {
    id: "nvidia.stated_nonce",
    clause: "nvidia-gpu.md 16",
    lacks: ({ evidence }) => (evidence.statedNonce ? undefined : "none is stated beside the report"),
    run: statedNonce,
    tell: ({ evidence }) => ["the nonce of the report", hex(evidence.report.nonce)],
  },
  {
    id: "nvidia.chain_validity",
    clause: "RFC 5280, 4.1.2.5; nvidia-gpu.md 6.1",
    lacks: ({ path }) => (path.certificates.length ? undefined : "there is no certificate"),
    run: ({ path, root, given }) => requirePathValid(path, root, given.at),
    tell: ({ path: { certificates }, given }) => {
      const first = Math.max(...certificates.map((certificate) => certificate.notBefore));
      const last = Math.min(...certificates.map((certificate) => certificate.notAfter));
      return [rfc3339(given.at), `all are valid from ${rfc3339(first)} to ${rfc3339(last)}`];
    },
  },
  {
    id: "nvidia.signature",
    clause: "nvidia-gpu.md 5",
    lacks: ({ path }) => (path.leaf ? undefined : "there is no certificate of an attestation key"),
    run: signature,
    tell: ({ evidence, path }) => {
      const leaf = there(path.leaf);
      const expected = `ECDSA P-384 with SHA-384 over ${evidence.report.signedBytes.length} bytes`;
      return [expected, `verifies with ${leaf.name}, serial 0x${leaf.serial.toString(16)}`];
    },
  },
  {
    id: "nvidia.fwid",
    clause: "nvidia-gpu.md 7",
    lacks: lacksFwid,
    run: fwid,
    tell: ({ evidence }) => ["the firmware id in the certificate of the key", there(evidence.report.opaque.fwid)],
  },
  {
    id: "nvidia.leaf_binding",
    clause: "nvidia-gpu.md 7",
    lacks: lacksBinding,
    run: leafBinding,
    tell: () => ["the key of the device that issued it", "the same key"],
  },
  {
    id: "nvidia.revocation",
    clause: "RFC 6960; nvidia-gpu.md 8",
    lacks: ({ root }) => (root ? undefined : "the certificate chain does not hold"),
    run: revocation,
    tell: (attempt) => tellStatuses(attempt, attempt.path.certificates.slice(1), attempt.statuses, "revocation"),
  },
];
