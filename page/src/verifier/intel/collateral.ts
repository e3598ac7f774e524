/**
 * Selection of available TCB info and QE identities: matching, genuine, current (T08 to T10).
 *
 * Several can belong: a directory holds the collateral of many platforms and dates. The best is tried first and the
 * next one when that fails, and the first failure is what is reported (intel-tdx-sgx.md 8, 14).
 */

import { type Bytes, rfc3339 } from "../bytes";
import { MAX_CANDIDATES, firstOf, requireIssued } from "../chain";
import { ECDSA_SHA256, ecdsaHolds } from "../crypto";
import { AttestError, need, refusalOf, refuse } from "../errors";
import { shown } from "../shown";
import { type Endorsements, withCommonName } from "../pool";
import type { Certificate, Issuer } from "../x509";
import { currentFirst, requireNotListed } from "./chain";
import type { IntelDocument } from "./document";
import { type QeIdentity, parseQeIdentity } from "./qe_identity";
import { highestFirst } from "./json_members";
import type { PckCertificate } from "./pck";
import type { Tee } from "./quote";
import { type Dated, type TcbInfo, parseTcbInfo } from "./tcb_info";

const TCB_SIGNING = "tcb-signing";
const TCB_SIGNING_NAME = "Intel SGX TCB Signing";

/** All available endorsements, the root that the PCK chain reached, and the moment. */
export interface AtHand {
  readonly endorsements: Endorsements;
  readonly root: Issuer;
  readonly at: number;
  /** Dates are not judged: for what is against a platform, never for what is in its favour. */
  readonly isUndated?: boolean;
}

/** Return the TCB info of a platform: genuine, current, and of those the one with the highest evaluation number. */
export function findTcbInfo(tee: Tee, { fmspc, pce_id }: PckCertificate, atHand: AtHand): Promise<TcbInfo> {
  const title = (id: string, ...platform: readonly Bytes[]): string => [id, ...platform.map(shown)].join(" ");
  return best(
    "tcb-info",
    parseTcbInfo,
    (info) => title(info.id, info.fmspc, info.pceId),
    title(tee.toUpperCase(), fmspc, pce_id),
    atHand,
  );
}

/** Return the identity of the quoting enclave of a TEE, chosen like a TCB info. */
export function findQeIdentity(tee: Tee, atHand: AtHand): Promise<QeIdentity> {
  return best("qe-identity", parseQeIdentity, ({ id }) => id, tee === "tdx" ? "TD_QE" : "QE", atHand);
}

const missing = (piece: string, wanted: string, others?: readonly string[]): never =>
  refuse("endorsement", `${piece}-missing`, wanted, others ?? "none", { retryable: true });

/** The best of the documents that belong, by their titles: what they are for. */
async function best<Content extends Dated>(
  kind: IntelDocument["kind"],
  read: (body: Bytes) => Content,
  titleOf: (content: Content) => string,
  wanted: string,
  atHand: AtHand,
): Promise<Content> {
  const { at, endorsements } = atHand;
  const found: { document: IntelDocument; content: Content }[] = [];
  for (const document of endorsements.documents.filter((each) => each.kind === kind)) {
    const content = await refusalOf(() => read(document.body));
    // An unreadable one is ignored.
    if (!(content instanceof AttestError)) found.push({ document, content });
  }
  const belonging = found.filter(({ content }) => titleOf(content) === wanted);
  // Current ones first, then the highest evaluation number, then the latest issue.
  const ranked = highestFirst(belonging, ({ content: { issueDate, nextUpdate, tcbEvaluationDataNumber } }) => [
    Number(issueDate <= at && at <= nextUpdate),
    tcbEvaluationDataNumber,
    issueDate,
  ]);
  return firstOf(
    ranked.slice(0, MAX_CANDIDATES),
    async ({ document, content }) => {
      await requireSigned(document, atHand);
      if (!atHand.isUndated) requireWithin(kind, content.issueDate, content.nextUpdate, at);
      return content;
    },
    () =>
      missing(
        kind,
        wanted,
        found.map(({ content }) => titleOf(content)),
      ),
  );
}

/** Require that a TCB Signing certificate of the root signed: of several with that key, one that is valid. */
async function requireSigned(document: IntelDocument, { endorsements, root, at, isUndated }: AtHand): Promise<void> {
  const candidates = withCommonName(endorsements, TCB_SIGNING_NAME);
  if (!candidates.length) missing(TCB_SIGNING, TCB_SIGNING_NAME);
  const signers: Certificate[] = [];
  for (const certificate of currentFirst(candidates, (each) => each, at)) {
    // A key that cannot be read signed nothing.
    const holds = await refusalOf(() => ecdsaHolds(certificate.spki, "SHA-256", document.signature, document.body));
    if (holds === true) signers.push(certificate);
  }
  const attempt = async (certificate: Certificate): Promise<void> => {
    await requireIssued(certificate, root, ECDSA_SHA256);
    await requireNotListed(endorsements.crls, root, certificate, at);
    if (!isUndated) requireWithin(TCB_SIGNING, certificate.notBefore, certificate.notAfter, at);
  };
  await firstOf(signers, attempt, () =>
    refuse("signature", "collateral-signature-invalid", TCB_SIGNING_NAME, "another", { field: document.kind }),
  );
}

/** Require `begins <= at <= ends`; what is out of date has to be fetched, which distrusts no platform. */
function requireWithin(piece: string, begins: number, ends: number, at: number): void {
  const code = `${piece}-${at < begins ? "not-yet-valid" : "expired"}`;
  need(begins <= at && at <= ends, "endorsement", code, `${rfc3339(begins)} to ${rfc3339(ends)}`, rfc3339(at), {
    retryable: true,
  });
}
