/** Reading answers about the revocation of one certificate (OCSP, RFC 6960, section 4.2.1). `ocsp.ts` judges them. */

import { type Bytes, hex } from "./bytes";
import { algorithmOf } from "./crypto";
import { DerReader, TAG, all, defect, integer, oid, onlyElement, onlySequence, reading, time, wholeBits } from "./der";
import { type Certificate, commonNameOf, readCertificate, readExtensions } from "./x509";

/** An answer has a certificate or two and some hundred bytes of its own. */
const MAX_OCSP_BYTES = 16 * 1024;
/** In one answer: the responder's, and perhaps its issuers. Each one costs a signature check or two. */
const MAX_CERTIFICATES = 4;
/** Validity of an answer without nextUpdate, in milliseconds: a day, as in `attest.endorsements.ocsp_answers`. */
const MAX_AGE = 24 * 60 * 60 * 1000;

const BASIC_RESPONSE = "1.3.6.1.5.5.7.48.1.1";
const NONCE = "1.3.6.1.5.5.7.48.1.2";
/**
 * Hashes by which responders identify issuers. Nothing depends on the security of SHA-1: the signature
 * is checked with the issuer's own key.
 */
const HASHES: Readonly<Record<string, OcspHash>> = {
  "1.3.14.3.2.26": "SHA-1",
  "2.16.840.1.101.3.4.2.1": "SHA-256",
  "2.16.840.1.101.3.4.2.2": "SHA-384",
};
const LAST_REASON = 10;
const STATUSES: Readonly<Record<number, OcspStatus>> = { 0x80: "good", 0x82: "unknown", 0xa1: "revoked" };

export type OcspHash = "SHA-1" | "SHA-256" | "SHA-384";
export type OcspStatus = "good" | "revoked" | "unknown";

/** One answer about one certificate as presented: untrusted until its signature is verified. */
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
  /** Why, by the number in RFC 5280, for a revoked one that states it. */
  readonly reason: number | undefined;
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
export const parseOcsp = (der: Bytes): OcspAnswer => reading("ocsp", () => readResponse(der));

function readResponse(der: Bytes): OcspAnswer {
  if (der.length > MAX_OCSP_BYTES) defect("size");
  const outer = onlySequence(der);
  if (hex(outer.next(TAG.enumerated).body) !== "00") defect("refusal");
  const response = onlySequence(outer.next(0xa0).body);
  outer.end();
  if (oid(response.next(TAG.oid)) !== BASIC_RESPONSE) defect("type");
  const basic = onlySequence(response.next(TAG.octetString).body);
  response.end();
  const tbs = basic.next(TAG.sequence).whole;
  const algorithm = basic.next(TAG.sequence).whole;
  const signature = wholeBits(basic.next(TAG.bitString));
  const inside = basic.maybe(0xa0);
  basic.end();
  if (!algorithmOf(algorithm)?.startsWith("ECDSA")) defect("algorithm");
  const certificates = inside
    ? all(onlyElement(inside.body, TAG.sequence).body, (reader) => readCertificate(reader.next().whole))
    : [];
  // An empty list would be another spelling of none.
  if (certificates.length > MAX_CERTIFICATES || (inside && !certificates.length)) defect("certificates");
  return { der, tbs, algorithm, signature, certificates, ...readData(onlySequence(tbs)) };
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
  requireNoCritical(data);
  const [single, ...more] = responses;
  return !single || more.length ? defect("responses") : readSingle(single);
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
  const { tag, body } = single.next();
  const status = STATUSES[tag] ?? defect("status");
  if (status !== "revoked" && body.length) defect("status");
  const reason = status === "revoked" ? readReason(new DerReader(body)) : undefined;
  const thisUpdate = time(single.next(TAG.generalizedTime));
  const next = single.maybe(0xa0);
  const ends = next ? time(onlyElement(next.body, TAG.generalizedTime)) : thisUpdate + MAX_AGE;
  requireNoCritical(single);
  return { hash, issuerHashes, serial, status, reason, thisUpdate, ends };
}

/** Since when, and perhaps why. */
function readReason(revoked: DerReader): number | undefined {
  time(revoked.next(TAG.generalizedTime));
  const stated = revoked.maybe(0xa0);
  revoked.end();
  if (!stated) return undefined;
  const [reason, ...more] = onlyElement(stated.body, TAG.enumerated).body;
  // Nobody has the seventh.
  return more.length || !(reason! <= LAST_REASON) || reason === 7 ? defect("reason") : reason;
}

/**
 * Refuse critical extensions beside the nonce, which is not looked at: a stored answer is judged by its dates. Nothing
 * is behind them.
 */
function requireNoCritical(reader: DerReader): void {
  const extensions = reader.maybe(0xa1);
  reader.end();
  for (const { oid: identifier, critical, value } of extensions ? readExtensions(extensions.body) : []) {
    if (identifier === NONCE) onlyElement(value, TAG.octetString);
    else if (critical) defect(identifier);
  }
}
