/**
 * Whether a certificate is revoked, by OCSP answers and revocation lists, as `attest.endorsements.ocsp` weighs them.
 *
 * An answer is signed by the issuer of the certificate itself, or by a responder that this very issuer certified for
 * the purpose. Nobody else's word counts.
 *
 * - A genuine negative refuses whatever its date. A certificate on hold is the one exception: RFC 5280 lets an issuer
 *   take a hold back, so a genuine, current, good answer that is newer than it counts instead.
 * - Otherwise the newest genuine answer that is current counts: good passes, unknown refuses.
 * - Without any current answer, a genuine and current list of the issuer that does not list the certificate suffices.
 *
 * Spec: RFC 6960, section 3.2; specs/nvidia-gpu.md, section 8.
 */

import { type Bytes, equal, hex, rfc3339 } from "./bytes";
import { type Crl, requireCurrentCrl } from "./crl";
import { ECDSA_SHA256, ECDSA_SHA384, algorithmOf, signatureHolds } from "./crypto";
import { DerError, DerReader, TAG, all, oid, onlyElement, wholeBits } from "./der";
import { AttestError, type Facts, fail, refusal, refusalOf } from "./errors";
import type { OcspAnswer, OcspHash } from "./ocsp_answers";
import { hasUsage } from "./chain";
import { type Certificate, type Issuer, extensionOf } from "./x509";

const BASIC_CONSTRAINTS = "2.5.29.19";
const KEY_USAGE = "2.5.29.15";
const EXTENDED_KEY_USAGE = "2.5.29.37";
const OCSP_SIGNING = "1.3.6.1.5.5.7.3.9";
const DIGITAL_SIGNATURE = 0;
const CLAUSE = "RFC 6960, section 3.2; nvidia-gpu.md 8";
/** Of two answers of one moment the worse one counts. */
const SEVERITY = ["good", "unknown", "revoked"];

/** What shows that a certificate is not revoked. */
export type Status = OcspAnswer | Crl;

export function isAnswer(status: Status): status is OcspAnswer {
  return "status" in status;
}

/** An answer that somebody signed who may, and from when to when it may be used; `ends` is excluded. */
interface Genuine {
  readonly answer: OcspAnswer;
  readonly begins: number;
  readonly ends: number;
}

/** What to judge by. */
export interface Weighed {
  readonly answers: readonly OcspAnswer[];
  readonly crls: readonly Crl[];
  /** Moment of appraisal. */
  readonly at: number;
  /** The reason why a hold is tolerated, for RIM signers only. A tolerated hold is itself returned. */
  readonly hold?: string | undefined;
}

/**
 * Return the genuine answer or list that shows that a certificate is not revoked. Nonces are not looked at: whoever
 * asked has compared them, and a stored answer is judged by its dates.
 *
 * Refuses with `certificate-revoked`; `certificate-status-unknown`, `ocsp-signature-invalid` or
 * `crl-signature-invalid`; `ocsp-missing`, `ocsp-expired`, `ocsp-not-yet-valid`, `crl-expired` or `crl-not-yet-valid`.
 *
 * @param issuer who issued it, already verified.
 */
export async function requireNotRevoked(certificate: Certificate, issuer: Issuer, weighed: Weighed): Promise<Status> {
  const { at } = weighed;
  const facts = { field: certificate.name, clause: CLAUSE };
  const named = await answersAbout(certificate, issuer, weighed.answers);
  const genuine = (await Promise.all(named.map((answer) => genuineOf(answer, issuer)))).filter((found) => found !== undefined);
  genuine.sort((one, other) => rank(one.answer, other.answer));
  const current = genuine.filter(({ begins, ends }) => begins <= at && at < ends);
  const held = refuseNegatives(genuine, current, facts, weighed.hold);
  const list = await listOf(certificate, issuer, weighed);
  const newest = current.at(-1)?.answer;
  if (newest) {
    if (newest.status === "unknown") throw refusal("chain", "certificate-status-unknown", "status good", told(newest), facts);
    return held ?? newest;
  }
  if (list && !(list instanceof AttestError)) return held ?? list;
  const latest = genuine.at(-1);
  const wanted = `an OCSP answer that is current at ${rfc3339(at)}`;
  if (latest) {
    const { begins, ends } = latest;
    const code = at < begins ? "ocsp-not-yet-valid" : "ocsp-expired";
    const dates = `${rfc3339(begins)} to ${rfc3339(Math.floor(ends / 1000) * 1000)}`;
    throw refusal("endorsement", code, wanted, dates, { ...facts, retryable: true });
  }
  if (named.length) throw refusal("chain", "ocsp-signature-invalid", `a signature by ${issuer.name} or its responder`, "another", facts);
  throw list ?? refusal("endorsement", "ocsp-missing", wanted, "none", { ...facts, retryable: true });
}

/** What an answer says, in words. */
function told({ status, reason = "no reason stated", thisUpdate }: OcspAnswer): string {
  return `status ${status}${status === "revoked" ? ` (${reason})` : ""} in the OCSP answer of ${rfc3339(thisUpdate)}`;
}

function rank(one: OcspAnswer, other: OcspAnswer): number {
  return one.thisUpdate - other.thisUpdate || SEVERITY.indexOf(one.status) - SEVERITY.indexOf(other.status);
}

/** The answers whose CertID names this certificate of this issuer in all three fields. */
async function answersAbout(certificate: Certificate, issuer: Issuer, answers: readonly OcspAnswer[]): Promise<OcspAnswer[]> {
  const names = new Map<OcspHash, string>();
  const named: OcspAnswer[] = [];
  for (const answer of answers) {
    if (answer.serial !== certificate.serial) continue;
    const name = names.get(answer.hash) ?? (await issuerHashes(issuer, answer.hash));
    names.set(answer.hash, name);
    if (answer.issuerHashes === name) named.push(answer);
  }
  return named;
}

/** How OCSP names an issuer: digests of its DER Name and of the content of its key's BIT STRING. */
async function issuerHashes(issuer: Issuer, hash: OcspHash): Promise<string> {
  const digests = [issuer.subject, keyBits(issuer.spki)].map((data) => crypto.subtle.digest(hash, data));
  return (await Promise.all(digests)).map((digest) => hex(new Uint8Array(digest))).join("");
}

function keyBits(spki: Bytes): Bytes {
  try {
    const inside = new DerReader(onlyElement(spki, TAG.sequence).body);
    inside.next();
    return wholeBits(inside.next(TAG.bitString), "key");
  } catch (error) {
    if (!(error instanceof DerError)) throw error;
    return fail("chain", "public-key-invalid", "");
  }
}

/** Refuse what was revoked, and return the hold that is tolerated, if one stands. */
function refuseNegatives(
  genuine: readonly Genuine[],
  current: readonly Genuine[],
  facts: Facts,
  hold: string | undefined,
): OcspAnswer | undefined {
  let held: OcspAnswer | undefined;
  for (const { answer } of genuine) {
    if (answer.status !== "revoked") continue;
    const onHold = answer.reason === "certificateHold";
    const newer = (other: Genuine): boolean => other.answer.status === "good" && other.answer.thisUpdate > answer.thisUpdate;
    if (onHold && current.some(newer)) continue; // taken back since
    if (!onHold || hold === undefined) throw refusal("revoked", "certificate-revoked", "status good", told(answer), facts);
    held = answer;
  }
  return held;
}

/** A current list of the issuer, or what is wrong with those in its name; undefined when there are none. */
async function listOf(certificate: Certificate, issuer: Issuer, { crls, at }: Weighed): Promise<Crl | AttestError | undefined> {
  if (!crls.some((crl) => equal(crl.issuer, issuer.subject))) return undefined;
  const found = await refusalOf(() => requireCurrentCrl(crls, issuer, { serials: [certificate.serial], at }));
  if (found instanceof AttestError && found.kind === "revoked") throw found;
  return found;
}

// -- who may answer

/**
 * NOTE: ResponderID is not compared. It names the signer, and it is the signer's certificate that gives the right. The
 * responder's own revocation is not asked for: only the same issuer could answer, by a responder again.
 */
async function genuineOf(answer: OcspAnswer, issuer: Issuer): Promise<Genuine | undefined> {
  const { tbs, signature, algorithm, thisUpdate, ends } = answer;
  for (const certificate of answer.certificates) {
    if (!(await isResponderOf(certificate, issuer))) continue;
    if (!(await signatureHolds(tbs, signature, algorithm, certificate.spki))) continue;
    // The last moment of a certificate is included, the end of an answer is not.
    const begins = Math.max(thisUpdate, certificate.notBefore);
    return { answer, begins, ends: Math.min(ends, certificate.notAfter + 1) };
  }
  return (await signatureHolds(tbs, signature, algorithm, issuer.spki)) ? { answer, begins: thisUpdate, ends } : undefined;
}

/** Whether the issuer certified a responder: its name, its signature, OCSPSigning, and nothing unknown. */
async function isResponderOf(certificate: Certificate, issuer: Issuer): Promise<boolean> {
  const understood = [BASIC_CONSTRAINTS, KEY_USAGE, EXTENDED_KEY_USAGE];
  const named = algorithmOf(certificate.algorithm);
  return (
    equal(certificate.issuer, issuer.subject) &&
    (named === ECDSA_SHA256 || named === ECDSA_SHA384) &&
    certificate.extensions.every((extension) => !extension.critical || understood.includes(extension.oid)) &&
    mayAnswer(certificate) &&
    signatureHolds(certificate.tbs, certificate.signature, certificate.algorithm, issuer.spki)
  );
}

/** Whether a certificate has the purpose OCSPSigning, and no keyUsage that forbids to sign. */
function mayAnswer(certificate: Certificate): boolean {
  const purposes = extensionOf(certificate, EXTENDED_KEY_USAGE);
  if (!purposes) return false;
  try {
    const listed = all(onlyElement(purposes.value, TAG.sequence).body, (reader) => oid(reader.next(TAG.oid)));
    const maySign = !extensionOf(certificate, KEY_USAGE) || hasUsage(certificate, DIGITAL_SIGNATURE);
    return maySign && listed.includes(OCSP_SIGNING);
  } catch (error) {
    if (error instanceof DerError) return false;
    throw error;
  }
}
