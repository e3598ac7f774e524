/** Reading answers about the revocation of one certificate (OCSP, RFC 6960, section 4.2.1). `ocsp.ts` judges them. */

import { type Bytes, hex } from "./bytes";
import { DerReader, TAG, all, defect, integer, oid, onlyElement, reading, time, wholeBits } from "./der";
import { AttestError } from "./errors";
import { type Certificate, commonNameOf, parseCertificate, readExtensions } from "./x509";

/** An answer has a certificate or two and some hundred bytes of its own. */
export const MAX_OCSP_BYTES = 16 * 1024;
/** In one answer: the responder's, and perhaps its issuers. Each one costs a signature check or two. */
const MAX_CERTIFICATES = 4;
/** How long an answer without nextUpdate counts, in milliseconds: a day, as in `attest.endorsements.ocsp_answers`. */
const MAX_AGE = 24 * 60 * 60 * 1000;

const BASIC_RESPONSE = "1.3.6.1.5.5.7.48.1.1";
const NONCE = "1.3.6.1.5.5.7.48.1.2";
const ALGORITHMS = ["300a06082a8648ce3d040302", "300a06082a8648ce3d040303"];
/** What responders name issuers with. SHA-1 secures nothing here: the signature is checked with the issuer's own key. */
const HASHES: Readonly<Record<string, OcspHash>> = {
  "1.3.14.3.2.26": "SHA-1",
  "2.16.840.1.101.3.4.2.1": "SHA-256",
  "2.16.840.1.101.3.4.2.2": "SHA-384",
};
const REASONS: readonly (string | undefined)[] = [
  "unspecified",
  "keyCompromise",
  "cACompromise",
  "affiliationChanged",
  "superseded",
  "cessationOfOperation",
  "certificateHold",
  undefined,
  "removeFromCRL",
  "privilegeWithdrawn",
  "aACompromise",
];

export type OcspHash = "SHA-1" | "SHA-256" | "SHA-384";
export type OcspStatus = "good" | "revoked" | "unknown";

/** One answer about one certificate as presented: a stranger's word until its signature is verified. */
export interface OcspAnswer {
  readonly der: Bytes;
  readonly tbs: Bytes;
  /** DER AlgorithmIdentifier of the signature. */
  readonly algorithm: Bytes;
  readonly signature: Bytes;
  /** Those inside, of which one may be the responder's. */
  readonly certificates: readonly Certificate[];
  readonly hash: OcspHash;
  /** Digests of the issuer's DER Name and of the content of its key's BIT STRING, in hex, one after the other. */
  readonly issuerHashes: string;
  readonly serial: bigint;
  readonly status: OcspStatus;
  /** Why, in RFC 5280's words (`certificateHold`), for a revoked one that states it. */
  readonly reason: string | undefined;
  /** Since when, for a revoked one. */
  readonly revokedAt: number | undefined;
  /** First moment at which it is current, included. */
  readonly thisUpdate: number;
  /** End of its currency, excluded: nextUpdate, or a day after thisUpdate. */
  readonly ends: number;
}

/**
 * Read one answer: a basic response about exactly one certificate, signed with ECDSA, in DER to the last byte.
 *
 * @throws AttestError `ocsp-malformed`, among others a responder's refusal, an answer about several certificates, or a
 *   critical extension that is not the nonce.
 */
export function parseOcsp(der: Bytes): OcspAnswer {
  try {
    return reading("ocsp", () => readResponse(der));
  } catch (error) {
    if (!(error instanceof AttestError) || error.code === "ocsp-malformed") throw error;
    throw new AttestError("malformed", "ocsp-malformed", "", { field: "ocsp" });
  }
}

function readResponse(der: Bytes): OcspAnswer {
  if (der.length > MAX_OCSP_BYTES) defect("size");
  const outer = new DerReader(onlyElement(der, TAG.sequence).body);
  const refusal = hex(outer.next(TAG.enumerated).body);
  if (refusal !== "00") defect("refusal");
  const response = new DerReader(onlyElement(outer.next(0xa0).body, TAG.sequence).body);
  outer.end();
  if (oid(response.next(TAG.oid)) !== BASIC_RESPONSE) defect("type");
  const basic = new DerReader(onlyElement(response.next(TAG.octetString).body, TAG.sequence).body);
  response.end();
  const tbs = basic.next(TAG.sequence);
  const algorithm = basic.next(TAG.sequence).whole;
  const signature = wholeBits(basic.next(TAG.bitString), "signature");
  const inside = basic.maybe(0xa0);
  basic.end();
  if (!ALGORITHMS.includes(hex(algorithm))) defect("algorithm");
  const listed = inside ? all(onlyElement(inside.body, TAG.sequence).body, (reader) => reader.next().whole) : [];
  // An empty list would be another spelling of none.
  if (listed.length > MAX_CERTIFICATES || (inside && !listed.length)) defect("certificates");
  const certificates = listed.map(parseCertificate);
  return { der, tbs: tbs.whole, algorithm, signature, certificates, ...readData(new DerReader(tbs.body)) };
}

type Stated = Omit<OcspAnswer, "der" | "tbs" | "algorithm" | "signature" | "certificates">;

/** ResponseData: what the responder signed. */
function readData(data: DerReader): Stated {
  const { tag, body } = data.next();
  if (tag === 0xa1) commonNameOf(body);
  else if (tag === 0xa2) onlyElement(body, TAG.octetString);
  else defect("responder");
  time(data.next(TAG.generalizedTime));
  const responses = all(data.next(TAG.sequence).body, (reader) => reader.sequence());
  requireNoCritical(data.maybe(0xa1)?.body);
  data.end();
  const [single, ...more] = responses;
  if (!single || more.length) defect("responses");
  return readSingle(single);
}

function readSingle(single: DerReader): Stated {
  const id = single.sequence();
  const algorithm = id.sequence();
  const hash = HASHES[oid(algorithm.next(TAG.oid))] ?? defect("hash");
  if (algorithm.maybe(TAG.null)?.body.length) defect("hash");
  algorithm.end();
  const issuerHashes = hex(id.next(TAG.octetString).body) + hex(id.next(TAG.octetString).body);
  const serial = integer(id.next(TAG.integer));
  id.end();
  const status = readStatus(single);
  const thisUpdate = time(single.next(TAG.generalizedTime));
  const next = single.maybe(0xa0);
  const ends = next ? time(onlyElement(next.body, TAG.generalizedTime)) : thisUpdate + MAX_AGE;
  requireNoCritical(single.maybe(0xa1)?.body);
  single.end();
  return { hash, issuerHashes, serial, ...status, thisUpdate, ends };
}

function readStatus(single: DerReader): Pick<OcspAnswer, "status" | "reason" | "revokedAt"> {
  const { tag, body } = single.next();
  if (tag === 0xa1) {
    const revoked = new DerReader(body);
    const revokedAt = time(revoked.next(TAG.generalizedTime));
    const stated = revoked.maybe(0xa0);
    revoked.end();
    const reason = stated && readReason(onlyElement(stated.body, TAG.enumerated).body);
    return { status: "revoked", reason, revokedAt };
  }
  if ((tag !== 0x80 && tag !== 0x82) || body.length) defect("status");
  return { status: tag === 0x80 ? "good" : "unknown", reason: undefined, revokedAt: undefined };
}

function readReason(body: Bytes): string {
  return (body.length === 1 && REASONS[body[0] ?? -1]) || defect("reason");
}

/** Refuse critical extensions beside the nonce, which is not looked at: a stored answer is judged by its dates. */
function requireNoCritical(content: Bytes | undefined): void {
  for (const { oid: identifier, critical, value } of content ? readExtensions(content) : []) {
    if (identifier === NONCE) onlyElement(value, TAG.octetString);
    else if (critical) defect(identifier);
  }
}
