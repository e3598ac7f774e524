/**
 * From a PCK certificate to the pinned Intel SGX Root CA.
 *
 * Several certificates can bear a wanted name; the one whose key verifies the child counts. A root counts only when its
 * key is pinned, wherever its certificate came from.
 */

import { type Anchor, anchorsOf, isSimulatedPin, pinned, type TrustAnchors } from "../anchors";
import { type Bytes, equal, latin1 } from "../bytes";
import { requireCa, requireIssued, requireValid } from "../chain";
import { ECDSA_SHA256, keyKind } from "../crypto";
import { AttestError } from "../errors";
import { readPemBlocks } from "../pem";
import { type Endorsements, named } from "../pool";
import { type Certificate, type Issuer, parseCertificate, spkiPin } from "../x509";
import type { PckCertificate } from "./pck";
import { PCK_CHAIN, type Quote } from "./quote";
import { refusal } from "./refusal";

/** Certificates of one role that are tried; each may cost a public-key operation. */
export const MAX_CANDIDATES = 8;
/** Intel's chain has three. */
const MAX_CHAIN_CERTIFICATES = 8;
const ROLE = "intel-sgx-root";
const ROOT_NAME = "Intel SGX Root CA";

/** A PCK certificate that leads to a pinned root, within all dates. */
export interface PckChain {
  readonly pck: PckCertificate;
  /** PCK Platform CA or PCK Processor CA, the CA whose CRL lists PCK certificates. */
  readonly issuer: Certificate;
  /** Name and key of the Intel SGX Root CA, whose CRL lists the issuer. */
  readonly root: Issuer;
  readonly anchor: Anchor;
}

/** The certificates that the quote brought along, in its order; none for certification data 1 to 4. */
export function embeddedCertificates(quote: Quote): readonly Certificate[] {
  if (quote.certificationType !== PCK_CHAIN) return [];
  const blocks = readPemBlocks(latin1(quote.certificationData));
  const begun = latin1(quote.certificationData).split("-----BEGIN").length - 1;
  const count = blocks.length;
  if (!count || count > MAX_CHAIN_CERTIFICATES || begun !== count || blocks.some(({ label }) => label !== "CERTIFICATE")) {
    const [expected, got] = [`1 to ${MAX_CHAIN_CERTIFICATES} PEM certificates`, `${count} readable blocks of ${begun}`];
    throw refusal("malformed", "certificate-malformed", "certification data", expected, got);
  }
  return blocks.map(({ content }) => parseCertificate(content));
}

/** Require a public key of P-256, point uncompressed, as every key of Intel's is: `public-key-invalid`. */
export function requireP256({ name, spki }: Issuer): void {
  if (keyKind(spki) !== "P-256") {
    throw refusal("chain", "public-key-invalid", `key of ${name}`, "ECDSA P-256", "another kind of key");
  }
}

/**
 * T02: find the path from a PCK certificate to a pinned root, every certificate of it valid at the moment.
 *
 * Issuers are looked for in the quote first and then among the endorsements. The root that a quote brings counts only
 * when its key is pinned, and is not needed where the key itself is held.
 */
export async function findPckChain(
  pck: PckCertificate,
  quote: Quote,
  endorsements: Endorsements,
  anchors: TrustAnchors,
  at: number,
): Promise<PckChain> {
  const embedded = embeddedCertificates(quote);
  const candidates = (subject: Bytes): readonly Certificate[] => {
    const own = embedded.filter((certificate) => equal(certificate.subject, subject));
    return [...own, ...named(endorsements, subject)].slice(0, MAX_CANDIDATES);
  };
  const leaf = pck.certificate;
  requireValid(leaf, at);
  const issuer = await findIssuer(leaf, candidates(leaf.issuer), at);
  return { pck, issuer, ...(await findRoot(issuer, candidates(issuer.issuer), anchors, at)) };
}

/**
 * Return what the first of several candidates gives that fits, or nothing; what the first of them fails with is what
 * is reported, when none does.
 */
export async function firstFitting<Candidate, Found>(
  candidates: readonly Candidate[],
  attempt: (candidate: Candidate) => Promise<Found | undefined>,
  missing: () => AttestError | Promise<AttestError>,
): Promise<Found> {
  let first: AttestError | undefined;
  for (const candidate of candidates) {
    try {
      const found = await attempt(candidate);
      if (found !== undefined) return found;
    } catch (error) {
      if (!(error instanceof AttestError)) throw error;
      first ??= error;
    }
  }
  throw first ?? (await missing());
}

/** Return, of several with the wanted name, one whose key verifies the PCK certificate and that is valid. */
function findIssuer(leaf: Certificate, candidates: readonly Certificate[], at: number): Promise<Certificate> {
  const attempt = async (candidate: Certificate): Promise<Certificate> => {
    requireP256(candidate);
    await requireIssued(leaf, candidate, ECDSA_SHA256);
    requireCa(candidate);
    requireValid(candidate, at);
    return candidate;
  };
  return firstFitting(candidates, attempt, () => {
    const name = leaf.issuerCommonName ?? "issuer";
    return refusal("endorsement", "pck-issuer-missing", `issuer of ${leaf.name}`, name, "none", { retryable: true });
  });
}

interface Root {
  readonly anchor: Anchor;
  readonly root: Issuer;
}

/** Return the pinned root that issued `child`, with its name and key; it has to be valid at the moment. */
async function findRoot(
  child: Certificate,
  presented: readonly Certificate[],
  anchors: TrustAnchors,
  at: number,
): Promise<Root> {
  if (child.issuerCommonName !== ROOT_NAME) {
    const got = child.issuerCommonName ?? "a name without one CN";
    throw refusal("chain", "pck-name-unexpected", "issuer CN", ROOT_NAME, got);
  }
  const pins = await Promise.all(presented.map(spkiPin));
  // Pinned roots in the name of the child's issuer: keys that are held, then certificates that were presented.
  const held = anchorsOf(anchors, ROLE).flatMap((anchor) => {
    return anchor.held && equal(anchor.held.subject, child.issuer) ? [{ anchor, root: anchor.held, dated: anchor.held }] : [];
  });
  const shown = presented.flatMap((root, i) => {
    const anchor = pinned(anchors, ROLE, pins[i] ?? "");
    return anchor ? [{ anchor, root, certificate: root, dated: root }] : [];
  });
  const attempt = async (candidate: (typeof held)[number] | (typeof shown)[number]): Promise<Root> => {
    const { anchor, root, dated } = candidate;
    requireP256(root);
    await requireIssued(child, root, ECDSA_SHA256);
    if ("certificate" in candidate) {
      await requireIssued(candidate.certificate, root, ECDSA_SHA256);
      requireCa(candidate.certificate);
    }
    requireValid(dated, at);
    return { anchor, root };
  };
  const stranger = pins.find((pin) => !pinned(anchors, ROLE, pin));
  try {
    return await firstFitting([...held, ...shown], attempt, () => noRoot(anchors));
  } catch (error) {
    // A root that was shown and is no anchor says more than why another one did not fit.
    throw stranger !== undefined && error instanceof AttestError ? untrusted(stranger) : error;
  }
}

function untrusted(pin: string): AttestError {
  const code = isSimulatedPin(ROLE, pin) ? "simulated-root-refused" : "root-not-trusted";
  return refusal("chain", code, "root", "a pinned Intel root key", `SHA-256 of the public key ${pin}`);
}

function noRoot(anchors: TrustAnchors): AttestError {
  if (anchorsOf(anchors, ROLE).some((anchor) => !anchor.held)) {
    return refusal("endorsement", "intel-root-missing", "root", `a pinned ${ROOT_NAME}`, "none");
  }
  const got = `a root in the name ${ROOT_NAME} that is not pinned`;
  return refusal("chain", "root-not-trusted", "root", "a pinned Intel root key", got);
}
