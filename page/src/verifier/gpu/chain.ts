/**
 * From the attestation key of a device to NVIDIA's pinned root: L5, L4, L3, L2, and the root that is an argument.
 *
 * In the JSON forms the chain belongs to the evidence and its order counts. For a raw report it lies among the
 * endorsements, perhaps with chains of other devices: there the leaf is the one whose key verifies the report, and
 * issuers are found by name and signature.
 *
 * Spec: specs/nvidia-gpu.md, sections 5 and 6.
 */

import { type Anchor, type TrustAnchors, anchorsOf, isSimulatedPin, pinned } from "../anchors";
import { equal } from "../bytes";
import { requireCa, requireIssued, requireValid } from "../chain";
import { ECDSA_SHA384, ecdsaHolds } from "../crypto";
import { AttestError, refusal, refusalOf } from "../errors";
import { type Endorsements, named } from "../pool";
import { type Certificate, type Issuer, spkiPin } from "../x509";
import { isLeaf, requireP384, withoutFirmwareId } from "./certificates";
import type { ParsedGpuReport } from "./structure";

/** L5, L4, L3 and L2: certificates between the report and the root. */
export const PATH_LENGTH = 4;
/** Leaves that are tried for one raw report: eight machines with twelve devices are fewer than a hundred. */
const MAX_LEAVES = 64;
/** Certificates of one name that are tried: NVIDIA has one of each. */
const MAX_CANDIDATES = 16;
const ROLE = "nvidia-device-root";

/** Certificates of a device as found; nothing of it is trusted. */
export interface DevicePath {
  /** L5, L4, L3 and L2 in this order, or as far as they were found. */
  readonly certificates: readonly Certificate[];
  /** Certificates that came in the place of the root; only compared with a pin. */
  readonly roots: readonly Certificate[];
  /** Why the path is not complete. */
  readonly failure?: AttestError;
  /** The first certificate, if it claims to be that of an attestation key. */
  readonly leaf?: Certificate;
  /** The certificate after the leaf, which should be the device's. */
  readonly device?: Certificate;
}

/** The pinned root that a path reaches. */
export interface DeviceRoot {
  readonly anchor: Anchor;
  /** Its name and key. */
  readonly issuer: Issuer;
  /** Its certificate, where the anchor is held by its digest alone. */
  readonly certificate?: Certificate;
}

// -- finding

/** The certificates from the attestation key up to L2, as they came with the evidence or lie in the pool. */
export async function findPath(
  report: ParsedGpuReport,
  chain: readonly Certificate[] | undefined,
  pool: Endorsements,
): Promise<DevicePath> {
  if (chain) return presentedPath(chain, pool);
  const leaf = await findLeaf(report, pool);
  if (!leaf) return path([], [], refusal("endorsement", "gpu-leaf-missing", "a certificate with a firmware id", "none"));
  const found = [leaf];
  let failure: AttestError | undefined;
  while (found.length < PATH_LENGTH && !failure) {
    const issuer = await refusalOf(() => findIssuer(found.at(-1) as Certificate, pool));
    if (issuer instanceof AttestError) failure = issuer;
    else found.push(issuer);
  }
  return path(found, named(pool, (found.at(-1) as Certificate).issuer), failure);
}

function path(certificates: readonly Certificate[], roots: readonly Certificate[], failure?: AttestError): DevicePath {
  const [first, second] = certificates;
  const leaf = first && isLeaf(first) ? { leaf: first, ...(second && { device: second }) } : {};
  return { certificates, roots, ...(failure && { failure }), ...leaf };
}

/** Take a chain as it stands, without a self-issued last certificate: a root from the evidence is none. */
function presentedPath(chain: readonly Certificate[], pool: Endorsements): DevicePath {
  const last = chain.at(-1);
  const rootless = last && equal(last.issuer, last.subject) ? chain.slice(0, -1) : chain;
  const end = rootless.at(-1);
  const roots = [...chain.slice(rootless.length), ...(end ? named(pool, end.issuer) : [])];
  const got = rootless.map((certificate) => certificate.name).join(", ") || "none";
  const wrong = refusal("chain", "gpu-chain-length", "attestation key, device and two issuers, in this order", got);
  return path(rootless, roots, rootless.length === PATH_LENGTH ? undefined : wrong);
}

/** The leaf whose key signed the report; if none did, the first, so that the signature is what fails. */
async function findLeaf(report: ParsedGpuReport, pool: Endorsements): Promise<Certificate | undefined> {
  const leaves = pool.certificates.filter(isLeaf).slice(0, MAX_LEAVES);
  for (const leaf of leaves.length > 1 ? leaves : []) if (await reportSignedBy(report, leaf)) return leaf;
  return leaves[0];
}

/** Whether the report's signature verifies under this certificate's key; a key of another kind signed nothing. */
export async function reportSignedBy(report: ParsedGpuReport, leaf: Certificate): Promise<boolean> {
  const holds = await refusalOf(async () => {
    await requireP384(leaf);
    return ecdsaHolds(leaf.spki, "SHA-384", report.signature, report.signedBytes);
  });
  return holds === true;
}

/** Who issued `child`; a self-issued certificate stands in the place of the root and is no candidate. */
async function findIssuer(child: Certificate, pool: Endorsements): Promise<Certificate> {
  let first: AttestError | undefined;
  const candidates = named(pool, child.issuer).slice(0, MAX_CANDIDATES);
  for (const candidate of candidates.filter(({ issuer, subject }) => !equal(issuer, subject))) {
    const found = await refusalOf(() => requireLink(child, candidate));
    if (!(found instanceof AttestError)) return candidate;
    first ??= found;
  }
  throw first ?? refusal("endorsement", "gpu-issuer-missing", issuerName(child), "none");
}

// -- judging

async function requireLink(child: Certificate, issuer: Certificate): Promise<void> {
  await requireIssued(withoutFirmwareId(child), issuer, ECDSA_SHA384);
  requireCa(issuer);
  await requireP384(issuer);
}

/** Require that each certificate is issued by the next, which is a CA with a P-384 key. */
export async function requireLinked({ certificates }: DevicePath): Promise<void> {
  for (const [position, issuer] of certificates.slice(1).entries()) {
    await requireLink(certificates[position] as Certificate, issuer);
  }
}

/**
 * Return the pinned root that issued the last certificate of the path.
 *
 * Refuses with `root-not-trusted`, `simulated-root-refused`, `gpu-root-missing`, or by the rules of chains.
 */
export async function findRoot({ certificates, roots }: DevicePath, anchors: TrustAnchors): Promise<DeviceRoot> {
  const last = certificates.at(-1) as Certificate;
  let first: AttestError | undefined;
  for (const root of await candidateRoots(last, roots.slice(0, MAX_CANDIDATES), anchors)) {
    const found = await refusalOf(async () => {
      await requireIssued(last, root.issuer, ECDSA_SHA384);
      if (root.certificate) await requireLink(root.certificate, root.certificate);
    });
    if (!(found instanceof AttestError)) return root;
    first ??= found;
  }
  throw first ?? (await noRoot(last, roots, anchors));
}

/** Pinned roots in the name of the issuer: as keys that are held, and as presented certificates. */
async function candidateRoots(last: Certificate, presented: readonly Certificate[], anchors: TrustAnchors): Promise<DeviceRoot[]> {
  const found: DeviceRoot[] = [];
  for (const anchor of anchorsOf(anchors, ROLE)) {
    if (anchor.held && equal(anchor.held.subject, last.issuer)) found.push({ anchor, issuer: anchor.held });
  }
  for (const certificate of presented) {
    const anchor = pinned(anchors, ROLE, await spkiPin(certificate));
    if (anchor && !anchor.held) found.push({ anchor, issuer: certificate, certificate });
  }
  return found;
}

function issuerName({ issuerCommonName }: Certificate): string {
  return issuerCommonName ?? "a name without one CN";
}

async function noRoot(last: Certificate, presented: readonly Certificate[], anchors: TrustAnchors): Promise<AttestError> {
  const expected = `a pinned ${issuerName(last)}`;
  const pins = await Promise.all(presented.slice(0, MAX_CANDIDATES).map(spkiPin));
  if (!pins.length && anchorsOf(anchors, ROLE).some((anchor) => !anchor.held)) {
    return refusal("endorsement", "gpu-root-missing", expected, "none");
  }
  const simulated = pins.some((pin) => isSimulatedPin(ROLE, pin));
  return refusal("chain", simulated ? "simulated-root-refused" : "root-not-trusted", expected, `SHA-256 of the key ${pins[0]}`);
}

/**
 * Require every certificate of the path, and the root, to be within its dates; both bounds are included. Nested
 * validity is not asked for: L5 and L4 begin before the certificates of their issuers.
 */
export function requirePathValid({ certificates }: DevicePath, root: DeviceRoot | undefined, at: number): void {
  for (const dated of [...certificates, root?.certificate, root?.anchor.held]) if (dated) requireValid(dated, at);
}
