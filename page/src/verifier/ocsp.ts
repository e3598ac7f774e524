/**
 * Revocation of a certificate by OCSP answers and revocation lists, as in `attest.endorsements.ocsp`.
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

import { equal, hex, rfc3339 } from "./bytes";
import { hasUsage } from "./chain";
import { type Crl, requireCurrentCrl } from "./crl";
import { algorithmOf, signatureHolds } from "./crypto";
import { TAG, all, oid, onlyElement, unlessDefect } from "./der";
import { AttestError, need, refusalOf, refuse } from "./errors";
import type { OcspAnswer } from "./ocsp_answers";
import { type Certificate, type Issuer, extensionOf } from "./x509";

const BASIC_CONSTRAINTS = "2.5.29.19";
const KEY_USAGE = "2.5.29.15";
const EXTENDED_KEY_USAGE = "2.5.29.37";
const OCSP_SIGNING = "1.3.6.1.5.5.7.3.9";
const DIGITAL_SIGNATURE = 0;
/** Key type of all of NVIDIA's authorities, which was required of them before this is called. */
const P384_POINT_BYTES = 97;
/** The reason certificateHold. */
const HOLD = 6;
/** Of two answers of one moment the worse one counts. */
const SEVERITY: readonly string[] = ["good", "unknown", "revoked"];

/** Proof that a certificate is not revoked: an answer, or a list, which has no status. */
export type Status = Pick<OcspAnswer, "thisUpdate"> & Partial<OcspAnswer>;

/** An answer with a signature of an authorised responder, and its validity; `ends` is exclusive. */
interface Genuine extends OcspAnswer {
  readonly begins: number;
}

/** Inputs of the evaluation. */
export interface Weighed {
  readonly answers: readonly OcspAnswer[];
  readonly crls: readonly Crl[];
  /** Moment of appraisal. */
  readonly at: number;
  /** The reason why a hold is tolerated, for RIM signers only. A tolerated hold is itself returned. */
  readonly hold?: string | undefined;
}

/**
 * Return the genuine answer or list that shows that a certificate is not revoked. Nonces are ignored: a party that
 * asked has compared them, and a stored answer is judged by its dates.
 *
 * Refuses with `certificate-revoked`; `certificate-status-unknown`, `ocsp-signature-invalid` or
 * `crl-signature-invalid`; `ocsp-missing`, `ocsp-expired`, `ocsp-not-yet-valid`, `crl-expired` or `crl-not-yet-valid`.
 *
 * @param issuer who issued it, already verified.
 */
export async function requireNotRevoked(certificate: Certificate, issuer: Issuer, weighed: Weighed): Promise<Status> {
  const { crls, at, hold } = weighed;
  const { name: field, serial } = certificate;
  // (1) What was said of this certificate by who may, the oldest first.
  const { named, genuine } = await answersAbout(certificate, issuer, weighed.answers);
  const current = genuine.filter(({ begins, ends }) => begins <= at && at < ends);
  // (2) What was revoked stays so, but for a hold that was taken back since, or that is tolerated.
  const held = toleratedHold(genuine, current, hold, field);
  const list = await refusalOf(() => requireCurrentCrl(crls, issuer, { serials: [serial], at }));
  if (list instanceof AttestError && list.kind === "revoked") throw list;
  // (3) The newest answer that is current; else a current list.
  const newest = current.at(-1);
  need(newest?.status !== "unknown", "chain", "certificate-status-unknown", "good", "unknown", { field });
  if (newest) return held ?? newest;
  if (!(list instanceof AttestError)) return held ?? list;
  // (4) What there is instead.
  const latest = genuine.at(-1);
  if (latest) refuseStale(latest, at, field);
  need(!named.length, "chain", "ocsp-signature-invalid", `an answer by ${issuer.name}`, "another", { field });
  if (list.code !== "crl-missing") throw list;
  return refuse("endorsement", "ocsp-missing", rfc3339(at), "none", { field, retryable: true });
}

interface Answers {
  /** Those that name the certificate. */
  readonly named: readonly OcspAnswer[];
  /** Those with a signature of an authorised responder, oldest first; of one moment the worst last. */
  readonly genuine: readonly Genuine[];
}

async function answersAbout(
  certificate: Certificate,
  issuer: Issuer,
  answers: readonly OcspAnswer[],
): Promise<Answers> {
  const about = await Promise.all(answers.map((answer) => isAbout(answer, certificate, issuer)));
  const named = answers.filter((_, i) => about[i]);
  const signed = await Promise.all(named.map((answer) => genuineOf(answer, issuer)));
  const genuine = signed.filter((found) => found !== undefined);
  const severity = ({ status }: OcspAnswer): number => SEVERITY.indexOf(status);
  genuine.sort((a, b) => a.thisUpdate - b.thisUpdate || severity(a) - severity(b));
  return { named, genuine };
}

/** Return the newest hold that is tolerated; refuse with `certificate-revoked` for every other revocation. */
function toleratedHold(
  genuine: readonly Genuine[],
  current: readonly Genuine[],
  hold: string | undefined,
  field: string,
): OcspAnswer | undefined {
  let held: OcspAnswer | undefined;
  for (const answer of genuine.filter(({ status }) => status === "revoked")) {
    const isHold = answer.reason === HOLD;
    const isBack = current.some(({ status, thisUpdate }) => status === "good" && thisUpdate > answer.thisUpdate);
    if (isHold && isBack) continue;
    const got = `revoked for reason ${answer.reason ?? "unstated"}, ${rfc3339(answer.thisUpdate)}`;
    need(isHold && hold !== undefined, "revoked", "certificate-revoked", "good", got, { field });
    held = answer;
  }
  return held;
}

function refuseStale({ begins, ends }: Genuine, at: number, field: string): never {
  const code = at < begins ? "ocsp-not-yet-valid" : "ocsp-expired";
  const dates = `${rfc3339(begins)} to ${rfc3339(Math.floor(ends / 1000) * 1000)}`;
  return refuse("endorsement", code, rfc3339(at), dates, { field, retryable: true });
}

/** True if the CertID of an answer names this certificate of this issuer in all three fields. */
async function isAbout(
  { serial, hash, issuerHashes }: OcspAnswer,
  certificate: Certificate,
  { subject, spki }: Issuer,
): Promise<boolean> {
  if (serial !== certificate.serial) return false;
  // OCSP names an issuer by digests of its DER Name and of the content of its key's BIT STRING.
  const digests = await Promise.all(
    [subject, spki.slice(-P384_POINT_BYTES)].map((data) => crypto.subtle.digest(hash, data)),
  );
  return issuerHashes === digests.map((digest) => hex(new Uint8Array(digest))).join("");
}

// -- who may answer

/**
 * NOTE: ResponderID is not compared. It names the signer, and it is the signer's certificate that gives the right. The
 * responder's own revocation is not asked for: only the same issuer could answer, by a responder again.
 */
async function genuineOf(answer: OcspAnswer, issuer: Issuer): Promise<Genuine | undefined> {
  const { tbs, signature, algorithm, thisUpdate, ends } = answer;
  for (const certificate of answer.certificates.filter((one) => mayAnswer(one, issuer))) {
    const isIssued = await signatureHolds(certificate.tbs, certificate.signature, certificate.algorithm, issuer.spki);
    if (!isIssued || !(await signatureHolds(tbs, signature, algorithm, certificate.spki))) continue;
    // The last moment of a certificate is included, the end of an answer is not.
    return {
      ...answer,
      begins: Math.max(thisUpdate, certificate.notBefore),
      ends: Math.min(ends, certificate.notAfter + 1),
    };
  }
  return (await signatureHolds(tbs, signature, algorithm, issuer.spki)) ? { ...answer, begins: thisUpdate } : undefined;
}

/**
 * True if the issuer may have certified a responder: its name, OCSPSigning, no keyUsage that forbids to sign, nothing
 * unknown.
 */
function mayAnswer(certificate: Certificate, { subject }: Issuer): unknown {
  const read = (): unknown => {
    const purposes = extensionOf(certificate, EXTENDED_KEY_USAGE);
    return (
      equal(certificate.issuer, subject) &&
      algorithmOf(certificate.algorithm)?.startsWith("ECDSA") &&
      certificate.extensions.every(
        ({ oid: id, critical }) => !critical || [BASIC_CONSTRAINTS, KEY_USAGE, EXTENDED_KEY_USAGE].includes(id),
      ) &&
      purposes &&
      all(onlyElement(purposes.value, TAG.sequence).body, (reader) => oid(reader.next(TAG.oid))).includes(
        OCSP_SIGNING,
      ) &&
      (!extensionOf(certificate, KEY_USAGE) || hasUsage(certificate, DIGITAL_SIGNATURE))
    );
  };
  return unlessDefect(read, () => false);
}
