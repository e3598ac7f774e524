/**
 * From a VCEK or VLEK to a pinned root of AMD's: ASK or ASVK, then the ARK. Several certificates can bear a wanted name
 * (there are two SEV-Genoa); the one whose key verifies the child counts.
 */

import { type Anchor, anchorsOf, isSimulatedPin, pinned } from "../anchors";
import { equal } from "../bytes";
import { requireCa, requireIssued, requireValid } from "../chain";
import { RSA_PSS_SHA384 } from "../crypto";
import { AttestError, fail } from "../errors";
import type { Given } from "../formats";
import { amdRoots } from "../lazy";
import { named } from "../pool";
import { type Certificate, type Issuer, spkiPin } from "../x509";
import type { Product } from "./tcb";

/** Certificates of one role that are tried; each may cost a public-key operation. */
export const MAX_CANDIDATES = 8;

/** Return the first that passes; or throw the refusal of the first, or `otherwise` when there is none. */
async function firstOf<T, R>(candidates: readonly T[], attempt: (candidate: T) => Promise<R>, otherwise: () => AttestError | Promise<AttestError>): Promise<R> {
  let refusal: AttestError | undefined;
  for (const candidate of candidates) {
    try {
      return await attempt(candidate);
    } catch (error) {
      if (!(error instanceof AttestError && error.kind === "chain")) throw error;
      refusal ??= error;
    }
  }
  throw refusal ?? (await otherwise());
}

/** The certificate that issued `child`; `snp-issuer-missing` when none bears the name. */
export function findIssuer(child: Certificate, candidates: readonly Certificate[]): Promise<Certificate> {
  const attempt = async (candidate: Certificate): Promise<Certificate> => {
    await requireIssued(child, candidate, RSA_PSS_SHA384);
    requireCa(candidate);
    return candidate;
  };
  const missing = (): AttestError =>
    new AttestError("endorsement", "snp-issuer-missing", "", {
      expected: child.issuerCommonName,
      got: "none",
      retryable: true,
    });
  return firstOf(candidates.slice(0, MAX_CANDIDATES), attempt, missing);
}

type Root = readonly [anchor: Anchor, issuer: Issuer, presented?: Certificate | undefined];

/** The pinned root that issued an ASK or ASVK, with its name and key. */
export async function findRoot(child: Certificate, product: Product, { endorsements, anchors, at }: Given): Promise<Root> {
  const presented = named(endorsements, child.issuer);
  const roots: Root[] = [];
  for (const certificate of presented.slice(0, MAX_CANDIDATES)) {
    const anchor = pinned(anchors, "amd-ark", await spkiPin(certificate));
    if (anchor) roots.push([anchor, certificate, certificate]);
  }
  for (const anchor of anchorsOf(anchors, "amd-ark")) {
    if (anchor.held && equal(anchor.held.subject, child.issuer)) roots.push([anchor, anchor.held]);
  }
  const attempt = async (root: Root): Promise<Root> => {
    const [anchor, named, certificate] = root;
    // AMD's keys are large, and hardly ever missing from what comes along.
    const issuer = certificate ?? { ...named, spki: (await amdRoots()).arkKey(anchor.product) };
    await requireIssued(child, issuer, RSA_PSS_SHA384);
    if (certificate) {
      await requireIssued(certificate, issuer, RSA_PSS_SHA384);
      requireCa(certificate);
      requireValid(certificate, at);
    }
    if (anchor.product !== product) {
      const facts = { expected: `an anchor of ${product}`, got: anchor.name };
      fail("chain", "snp-product-mismatch", "", facts);
    }
    return [anchor, issuer, certificate];
  };
  return firstOf(roots, attempt, () => noRoot(child, presented));
}

async function noRoot(child: Certificate, presented: readonly Certificate[]): Promise<AttestError> {
  const [first] = presented;
  if (!first) {
    const facts = { expected: `a pinned ${child.issuerCommonName}`, got: "none" };
    return new AttestError("endorsement", "snp-root-missing", "", facts);
  }
  const pins = await Promise.all(presented.map(spkiPin));
  const simulated = pins.some((pin) => isSimulatedPin("amd-ark", pin));
  const code = simulated ? "simulated-root-refused" : "root-not-trusted";
  return new AttestError("chain", code, "", {
    expected: "a pinned AMD root key",
    got: `SHA-256 of the public key ${pins[0]}`,
  });
}

/** Require a root that is held as a bare key to be within its dates; one pinned by digest was judged by its certificate. */
export function requireAnchorValid({ held }: Anchor, at: number): void {
  if (held) requireValid(held, at);
}
