/**
 * From a PCK certificate to the pinned Intel SGX Root CA.
 *
 * Several certificates can bear a wanted name; one that passes every check counts. A root counts only when its key is
 * pinned, wherever its certificate came from.
 */

import { type Anchor, anchorsOf, isSimulatedPin, pinned } from "../anchors";
import { INTEL_ROOTS } from "./anchors";
import { equal, latin1 } from "../bytes";
import { MAX_CANDIDATES, type Dated, bestCandidate, firstOf, requireCa, requireIssued, requireValid } from "../chain";
import { type Crl, requireCurrentCrl } from "../crl";
import { ECDSA_SHA256, keyKind } from "../crypto";
import { AttestError, need, refusalOf, refuse } from "../errors";
import type { Given } from "../evidence";
import { readPemBlocks } from "../pem";
import { named, withCommonName } from "../pool";
import { type Certificate, type Issuer, parseCertificate, spkiPin } from "../x509";
import { highestFirst } from "./json_members";
import { PCK_COMMON_NAME, type PckCertificate, readPck } from "./pck";
import { PCK_CHAIN, type Quote } from "./quote";

/** Intel's chain has three. */
const MAX_CHAIN_CERTIFICATES = 8;
const PPID_CLEAR = 1;
const PPID_RSA_3072 = 3;
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
export function embeddedCertificates({ certificationType, certificationData }: Quote): readonly Certificate[] {
  if (certificationType !== PCK_CHAIN) return [];
  const text = latin1(certificationData);
  const blocks = readPemBlocks(text);
  const begun = text.split("-----BEGIN").length - 1;
  const isChain =
    begun > 0 &&
    begun <= MAX_CHAIN_CERTIFICATES &&
    blocks.length === begun &&
    blocks.every(({ label }) => label === "CERTIFICATE");
  need(isChain, "malformed", "certificate-malformed", MAX_CHAIN_CERTIFICATES, begun, { field: "certification data" });
  return blocks.map(({ content }) => parseCertificate(content));
}

/** Require a public key of P-256, point uncompressed, as every key of Intel's is: `public-key-invalid`. */
export function requireP256({ name, spki }: Issuer): void {
  need(keyKind(spki) === "P-256", "chain", "public-key-invalid", "P-256", spki, { field: name });
}

/**
 * At most as many as are tried, those first that are valid at the moment: a renewed certificate has the key of the old
 * one.
 */
export const currentFirst = <T>(
  candidates: readonly T[],
  certificateOf: (candidate: T) => Dated,
  at: number,
): readonly T[] =>
  highestFirst(candidates, (candidate) => {
    const { notBefore, notAfter } = certificateOf(candidate);
    return [Number(notBefore <= at && at <= notAfter)];
  }).slice(0, MAX_CANDIDATES);

/**
 * T02, T03: return the possible PCK certificates of the quote: its own, or the available ones of its
 * platform.
 *
 * A quote with a chain counts with the first certificate of it and no other. For certification data 1 to 3 the PCEID
 * must be the quote's, and for type 1, where it can be read, the PPID. The CPUSVN there is not compared: it counts as
 * the processor does, the certificate as Intel's TCB info does.
 */
export async function pckCandidates(
  quote: Quote,
  [own]: readonly Certificate[],
  { endorsements, at }: Given,
): Promise<readonly PckCertificate[]> {
  if (own) return [readPck(own)];
  const found = [];
  for (const certificate of withCommonName(endorsements, PCK_COMMON_NAME)) {
    found.push(await refusalOf(() => readPck(certificate)));
  }
  const readable = found.filter((each) => !(each instanceof AttestError)) as PckCertificate[];
  if (found[0] instanceof AttestError && !readable.length) throw found[0];
  return currentFirst(
    readable.filter((pck) => isOfPlatform(pck, quote)),
    ({ certificate }) => certificate,
    at,
  );
}

function isOfPlatform({ ppid, pce_id }: PckCertificate, { certificationType, certificationData }: Quote): boolean {
  if (certificationType === PPID_CLEAR && !equal(certificationData.slice(0, ppid.length), ppid)) return false;
  return certificationType > PPID_RSA_3072 || equal(certificationData.slice(-pce_id.length), pce_id);
}

/**
 * T02: find the path from a PCK certificate to a pinned root, every certificate of it valid at the moment.
 *
 * A quote with a chain leads to the root by that chain alone; other quotes by endorsements. The root's certificate
 * counts only when its key is pinned, and is not needed where the key itself is held.
 */
export async function findPckChain(
  pck: PckCertificate,
  embedded: readonly Certificate[],
  given: Given,
): Promise<PckChain> {
  const { certificate } = pck;
  const { at, endorsements } = given;
  const own = embedded.length ? { ...endorsements, certificates: embedded } : endorsements;
  const issued = async (ca: Certificate): Promise<void> => {
    requireP256(ca);
    await requireIssued(certificate, ca, ECDSA_SHA256);
    requireCa(ca);
  };
  const rooted = (ca: Certificate): Promise<Root> => {
    const presented = new Set([...named(own, ca.issuer), ...named(endorsements, ca.issuer)]);
    return findRoot(ca, [...presented].slice(0, MAX_CANDIDATES), given);
  };
  requireValid(certificate, at);
  const issuer = await bestCandidate(
    named(own, certificate.issuer),
    issued,
    (ca) => requireValid(ca, at),
    rooted,
    async (ca) => requireNotListed(endorsements.crls, (await rooted(ca)).root, ca, at),
  );
  const wanted = certificate.issuerCommonName;
  if (!issuer && embedded.length) refuse("chain", "pck-chain-incomplete", wanted, "none");
  if (!issuer) return refuse("endorsement", "pck-issuer-missing", wanted, "none", { retryable: true });
  await issued(issuer);
  requireValid(issuer, at);
  return { pck, issuer, ...(await rooted(issuer)) };
}

/** Require that no genuine list of the issuer names the certificate; no list is required. */
export async function requireNotListed(
  crls: readonly Crl[],
  issuer: Issuer,
  certificate: Certificate,
  at: number,
): Promise<void> {
  const listed = await listedIn(crls, issuer, certificate, at);
  if (listed instanceof AttestError && listed.kind === "revoked") throw listed;
}

/** The current list of an issuer, which does not name the certificate; or why there is none. */
export const listedIn = (
  crls: readonly Crl[],
  issuer: Issuer,
  { serial }: Certificate,
  at: number,
): Promise<Crl | AttestError> =>
  refusalOf(() => requireCurrentCrl(crls, issuer, { serials: [serial], at, isEndIncluded: true }));

type Root = Pick<PckChain, "root" | "anchor">;

/** Return the pinned root that issued `child`, with its name and key; it has to be valid at the moment. */
async function findRoot(child: Certificate, presented: readonly Certificate[], { anchors, at }: Given): Promise<Root> {
  need(child.issuerCommonName === ROOT_NAME, "chain", "pck-name-unexpected", ROOT_NAME, child.issuerCommonName, {
    field: "CN",
  });
  const pins = await Promise.all(presented.map(spkiPin));
  // Pinned roots in the name of the child's issuer: keys that are held, then certificates that were presented.
  const ours = anchorsOf(anchors, INTEL_ROOTS);
  const held = ours.flatMap((anchor) =>
    anchor.held && equal(anchor.held.subject, child.issuer) ? [{ anchor, root: anchor.held }] : [],
  );
  const shown = presented.flatMap((root, i) =>
    ours.filter(({ pin }) => pin === pins[i]).map((anchor) => ({ anchor, root })),
  );
  const attempt = async (candidate: (typeof held)[number] | (typeof shown)[number]): Promise<Root> => {
    const { root } = candidate;
    requireP256(root);
    await requireIssued(child, root, ECDSA_SHA256);
    if ("der" in root) {
      await requireIssued(root, root, ECDSA_SHA256);
      requireCa(root);
    }
    requireValid(root, at);
    return candidate;
  };
  const found = await refusalOf(() =>
    firstOf([...held, ...shown], attempt, () => noRoot(ours.every((anchor) => anchor.held))),
  );
  if (!(found instanceof AttestError)) return found;
  // A root that was shown and is no anchor says more than why another one did not fit.
  const stranger = pins.find((pin) => !pinned(ours, pin));
  if (!stranger) throw found;
  return refuse(
    "chain",
    isSimulatedPin(INTEL_ROOTS, stranger) ? "simulated-root-refused" : "root-not-trusted",
    ROOT_NAME,
    stranger,
  );
}

function noRoot(areHeld: boolean): never {
  if (!areHeld) refuse("endorsement", "intel-root-missing", ROOT_NAME, "none");
  return refuse("chain", "root-not-trusted", ROOT_NAME, "another");
}
