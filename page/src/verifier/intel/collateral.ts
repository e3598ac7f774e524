/**
 * TCB info and QE identity at hand: which belongs, which is genuine, which is current (T08 to T10).
 *
 * Several can belong: a directory holds the collateral of many platforms and dates. The best is tried first and the next
 * one when that fails, and the first failure is what is reported (intel-tdx-sgx.md 8, 14).
 */

import { type Bytes, hex, rfc3339 } from "../bytes";
import { requireIssued } from "../chain";
import { ECDSA_SHA256, ecdsaHolds } from "../crypto";
import { AttestError } from "../errors";
import { type Endorsements, withCommonName } from "../pool";
import type { Certificate, Issuer } from "../x509";
import { firstFitting, MAX_CANDIDATES } from "./chain";
import type { DocumentKind, IntelDocument } from "./document";
import { parseQeIdentity, type QeIdentity } from "./qe_identity";
import type { Tee } from "./quote";
import { refusal } from "./refusal";
import { requireNotListed } from "./revocation";
import { type Dated, parseTcbInfo, type TcbInfo } from "./tcb_info";

const TCB_SIGNING_NAME = "Intel SGX TCB Signing";
type Piece = DocumentKind | "tcb-signing";

/** A document that Intel signed and that is current. Built by this module only. */
export interface SignedDocument<Content> {
  readonly content: Content;
  /** The TCB Signing certificate, issued by the root. */
  readonly signing: Certificate;
}

/** Everything at hand, the root that the PCK chain reached, and the moment. */
export interface AtHand {
  readonly endorsements: Endorsements;
  readonly root: Issuer;
  readonly at: number;
}

interface Candidate<Content> {
  readonly document: IntelDocument;
  readonly content: Content;
}

/** Return the TCB info of a platform: genuine, current, and of those the one with the highest evaluation number. */
export function findTcbInfo(tee: Tee, fmspc: Bytes, pceId: Bytes, atHand: AtHand): Promise<SignedDocument<TcbInfo>> {
  const title = (of: Tee, platform: Bytes, pce: Bytes) => `${of.toUpperCase()} ${hex(platform)} PCEID ${hex(pce)}`;
  const wanted = title(tee, fmspc, pceId);
  return best("tcb-info", parseTcbInfo, (info) => title(info.tee, info.fmspc, info.pceId), wanted, atHand);
}

/** Return the identity of the quoting enclave of a TEE, chosen like a TCB info. */
export function findQeIdentity(tee: Tee, atHand: AtHand): Promise<SignedDocument<QeIdentity>> {
  return best("qe-identity", parseQeIdentity, ({ id }) => id, tee === "tdx" ? "TD_QE" : "QE", atHand);
}

/** Documents of a kind that can be read: a broken one is nobody's, and is passed over. */
function readable<Content>(kind: DocumentKind, read: (body: Bytes) => Content, { endorsements }: AtHand): Candidate<Content>[] {
  const found: Candidate<Content>[] = [];
  for (const document of endorsements.documents) {
    if (document.kind !== kind) continue;
    try {
      found.push({ document, content: read(document.body) });
    } catch (error) {
      if (!(error instanceof AttestError)) throw error;
    }
  }
  return found;
}

function missing(piece: Piece, wanted: string, others: readonly string[]): AttestError {
  const got = [...new Set(others)].sort().join(", ") || "none";
  return refusal("endorsement", `${piece}-missing`, piece, wanted, got, { retryable: true });
}

/** The best of the documents that belong, by their titles: what they are for. */
async function best<Content extends Dated>(
  kind: DocumentKind,
  read: (body: Bytes) => Content,
  titleOf: (content: Content) => string,
  wanted: string,
  atHand: AtHand,
): Promise<SignedDocument<Content>> {
  const { at } = atHand;
  const found = readable(kind, read, atHand);
  const belonging = found.filter(({ content }) => titleOf(content) === wanted);
  // Current ones first, then the highest evaluation number, then the latest issue.
  const rank = ({ content }: Candidate<Content>) => {
    const isCurrent = content.issueDate <= at && at <= content.nextUpdate;
    return [Number(isCurrent), content.evaluationDataNumber, content.issueDate];
  };
  belonging.sort((a, b) => {
    const [left, right] = [rank(a), rank(b)];
    return left.map((value, i) => (right[i] ?? 0) - value).find((difference) => difference !== 0) ?? 0;
  });
  return firstFitting(
    belonging.slice(0, MAX_CANDIDATES),
    async ({ document, content }) => {
      const signing = await findSigning(document, atHand);
      requireWithin(kind, content.issueDate, content.nextUpdate, at);
      return { content, signing };
    },
    () => missing(kind, wanted, found.map(({ content }) => titleOf(content))),
  );
}

/** Return the TCB Signing certificate whose key signed: of several with that key, the one that is valid. */
async function findSigning(document: IntelDocument, { endorsements, root, at }: AtHand): Promise<Certificate> {
  const candidates = [...withCommonName(endorsements, TCB_SIGNING_NAME)];
  if (!candidates.length) throw missing("tcb-signing", TCB_SIGNING_NAME, []);
  const isPast = ({ notBefore, notAfter }: Certificate) => Number(at < notBefore || at > notAfter);
  candidates.sort((a, b) => isPast(a) - isPast(b));
  return firstFitting(
    candidates.slice(0, MAX_CANDIDATES),
    async (certificate) => {
      if (!(await isSignedBy(document, certificate))) return undefined;
      await requireIssued(certificate, root, ECDSA_SHA256);
      await requireNotListed(endorsements.crls, root, certificate);
      requireWithin("tcb-signing", certificate.notBefore, certificate.notAfter, at);
      return certificate;
    },
    () => {
      const expected = `ECDSA P-256 with SHA-256 over the exact bytes, by ${TCB_SIGNING_NAME}`;
      const got = "a signature that does not verify";
      return refusal("signature", "collateral-signature-invalid", `signature of the ${document.kind}`, expected, got);
    },
  );
}

/** Whether this key signed exactly these bytes; a key that cannot be read signed nothing. */
async function isSignedBy({ body, signature }: IntelDocument, { spki }: Issuer): Promise<boolean> {
  try {
    return await ecdsaHolds(spki, "SHA-256", signature, body);
  } catch (error) {
    if (error instanceof AttestError) return false;
    throw error;
  }
}

/** Require `begins <= at <= ends`; what is out of date has to be fetched, which distrusts no platform. */
function requireWithin(piece: Piece, begins: number, ends: number, at: number): void {
  if (begins <= at && at <= ends) return;
  const code = `${piece}-${at < begins ? "not-yet-valid" : "expired"}`;
  throw refusal("endorsement", code, piece, `${rfc3339(begins)} to ${rfc3339(ends)}`, rfc3339(at), { retryable: true });
}
