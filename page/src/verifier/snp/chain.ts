/**
 * From a VCEK or VLEK to a pinned root of AMD's: ASK or ASVK, then the ARK. Several certificates can bear a wanted name
 * (there are two SEV-Genoa, and a file may be damaged); one that passes every check counts.
 */

import { type Anchor, type TrustAnchors, anchorsOf, isSimulatedPin, pinned } from "../anchors";
import { AMD_ROOTS } from "./anchors";
import { type Bytes, equal } from "../bytes";
import { MAX_CANDIDATES, bestCandidate, firstOf, requireCa, requireIssued, requireValid } from "../chain";
import { RSA_PSS_SHA384, rsaSpki } from "../crypto";
import { base64Bytes } from "../encoding";
import { type AttestError, need, refusal, refuse } from "../errors";
import type { Given } from "../evidence";
import { named } from "../pool";
import { type Certificate, type Issuer, spkiPin } from "../x509";
import type { Product } from "./tcb";
import { part } from "../parts";

/**
 * Return the certificate that issued `child`: of several with the wanted name, one that passes everything. The further
 * checks serve the choice only. `snp-issuer-missing` when none bears the name.
 */
export async function findIssuer(
  child: Certificate,
  { endorsements }: Given,
  ...further: readonly ((candidate: Certificate) => unknown)[]
): Promise<Certificate> {
  const issued = async (candidate: Certificate): Promise<void> => {
    await requireIssued(child, candidate, RSA_PSS_SHA384);
    requireCa(candidate);
  };
  const issuer = await bestCandidate(named(endorsements, child.issuer), issued, ...further);
  if (!issuer) return refuse("endorsement", "snp-issuer-missing", child.issuerCommonName, "none", { retryable: true });
  await issued(issuer);
  return issuer;
}

/** A pinned root, with its name and key. */
export interface PinnedRoot {
  readonly anchor: Anchor;
  readonly issuer: Issuer;
}

/** A root that bears the wanted name: a certificate that was presented, or an anchor whose key is fetched. */
interface Candidate extends PinnedRoot {
  readonly presented?: Certificate;
}

/** Return the pinned root that issued an ASK or ASVK. */
export async function findRoot(child: Certificate, product: Product, given: Given): Promise<PinnedRoot> {
  const presented = named(given.endorsements, child.issuer);
  const pins = await Promise.all(presented.map(spkiPin));
  const found = rootCandidates(presented.slice(0, MAX_CANDIDATES), pins, given.anchors);
  return firstOf(
    found.filter(({ issuer }) => equal(issuer.subject, child.issuer)),
    (candidate) => requireRoot(candidate, child, product, given.at),
    () => noRoot(child, pins),
  );
}

function rootCandidates(
  presented: readonly Certificate[],
  pins: readonly string[],
  anchors: TrustAnchors,
): readonly Candidate[] {
  const ours = anchorsOf(anchors, AMD_ROOTS);
  const shown = presented.flatMap((certificate, i): Candidate[] => {
    const anchor = pinned(ours, pins[i] ?? "");
    return anchor ? [{ anchor, issuer: certificate, presented: certificate }] : [];
  });
  const held = ours.flatMap((anchor): Candidate[] => (anchor.held ? [{ anchor, issuer: anchor.held }] : []));
  return [...shown, ...held];
}

/** Require that a root issued `child` and is one of the product line; one that was presented is a valid CA, too. */
async function requireRoot(
  { anchor, issuer: stated, presented }: Candidate,
  child: Certificate,
  product: Product,
  at: number,
): Promise<PinnedRoot> {
  // AMD's keys are large, and hardly ever missing from what comes along.
  const issuer = presented ?? { ...stated, spki: await arkKey(anchor.product) };
  await requireIssued(child, issuer, RSA_PSS_SHA384);
  if (presented) {
    await requireIssued(presented, issuer, RSA_PSS_SHA384);
    requireCa(presented);
    requireValid(presented, at);
  }
  need(anchor.product === product, "chain", "snp-product-mismatch", product, anchor.name);
  return { anchor, issuer };
}

/** The AMD Root Key of a product line, DER. */
async function arkKey(product: string): Promise<Bytes> {
  const { arkModulus } = await part(import("../roots"));
  return rsaSpki(base64Bytes(arkModulus(product) ?? "", product));
}

function noRoot({ issuerCommonName }: Certificate, pins: readonly string[]): AttestError {
  if (!pins.length) return refusal("endorsement", "snp-root-missing", issuerCommonName ?? "an ARK", "none");
  const isSimulated = pins.some((pin) => isSimulatedPin(AMD_ROOTS, pin));
  const code = isSimulated ? "simulated-root-refused" : "root-not-trusted";
  return refusal("chain", code, "a pinned key", pins.join(", "));
}
