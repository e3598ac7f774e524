/** Rules that every vendor's chain shares: who may issue, who did, and when it counts. */

import { equal, hex, rfc3339 } from "./bytes";
import { type SignatureAlgorithm, algorithmOf, signatureHolds } from "./crypto";
import { TAG, bits, booleanOrFalse, integer, onlyElement, onlySequence, unlessDefect } from "./der";
import { AttestError, need, refusalOf } from "./errors";
import { type Certificate, type Issuer, extensionOf } from "./x509";

const BASIC_CONSTRAINTS = "2.5.29.19";
const KEY_USAGE = "2.5.29.15";
const KEY_CERT_SIGN = 5;
const MAY_ISSUE = "CA:true, keyCertSign:true";

/** Certificates or documents of one role that are tried; each may cost some public-key operations. */
export const MAX_CANDIDATES = 32;

/**
 * Return the first candidate that no check refuses, or else the first of those that pass the most checks in a row.
 *
 * The caller judges the choice by the same checks and reports the refusal. A single candidate costs no check.
 */
export async function bestCandidate<T>(
  candidates: readonly T[],
  ...checks: readonly ((candidate: T) => unknown)[]
): Promise<T | undefined> {
  const tried = candidates.slice(0, MAX_CANDIDATES);
  if (tried.length < 2) return tried[0];
  const passed = await Promise.all(tried.map((candidate) => passedChecks(candidate, checks)));
  return tried[passed.indexOf(Math.max(...passed))];
}

/** Number of consecutive checks that accept a candidate. */
async function passedChecks<T>(candidate: T, checks: readonly ((candidate: T) => unknown)[]): Promise<number> {
  for (const [passed, check] of checks.entries()) {
    if ((await refusalOf(() => check(candidate))) instanceof AttestError) return passed;
  }
  return checks.length;
}

/** Return what the first gives that passes; or throw the refusal of the first, or of `otherwise` when there is none. */
export async function firstOf<T, R>(
  candidates: readonly T[],
  attempt: (candidate: T) => Promise<R>,
  otherwise: () => unknown,
): Promise<R> {
  let refused: AttestError | undefined;
  for (const candidate of candidates) {
    const found = await refusalOf(() => attempt(candidate));
    if (!(found instanceof AttestError)) return found;
    refused ??= found;
  }
  throw refused ?? (await otherwise());
}

/** True if basicConstraints says CA:TRUE. */
export function isCa(certificate: Certificate): boolean {
  const constraints = extensionOf(certificate, BASIC_CONSTRAINTS);
  if (!constraints) return false;
  const inside = onlySequence(constraints.value);
  const ca = booleanOrFalse(inside);
  const pathLength = inside.maybe(TAG.integer);
  if (pathLength) integer(pathLength);
  inside.end();
  return ca;
}

/** True if keyUsage is there and has this bit. */
export function hasUsage(certificate: Certificate, bit: number): boolean {
  const usage = extensionOf(certificate, KEY_USAGE);
  return usage !== undefined && (bits(onlyElement(usage.value, TAG.bitString)).bytes[0]! & (128 >> bit)) !== 0;
}

/**
 * Require that a certificate may issue others: CA:TRUE and keyCertSign, every critical extension understood.
 * Refuses with `ca-flags-missing` or `critical-extension-unknown`.
 *
 * NOTE: pathLenConstraint is not compared; each vendor's procedure fixes the length of its chain itself.
 */
export function requireCa(certificate: Certificate): void {
  requireUnderstood(certificate);
  const found = unlessDefect(
    () => `CA:${isCa(certificate)}, keyCertSign:${hasUsage(certificate, KEY_CERT_SIGN)}`,
    String,
  );
  need(found === MAY_ISSUE, "chain", "ca-flags-missing", MAY_ISSUE, found, { field: certificate.name });
}

function requireUnderstood({ name, extensions }: Certificate): void {
  const unknown = extensions.filter(({ oid, critical }) => critical && oid !== BASIC_CONSTRAINTS && oid !== KEY_USAGE);
  need(
    !unknown.length,
    "chain",
    "critical-extension-unknown",
    "none",
    unknown.map(({ oid }) => oid),
    { field: name },
  );
}

/**
 * Require that `issuer` issued `certificate`: names byte by byte, the algorithm, the signature. Refuses with
 * `critical-extension-unknown`, `issuer-name-mismatch`, `certificate-algorithm-unexpected`,
 * `certificate-signature-invalid` or `public-key-invalid`.
 */
export async function requireIssued(
  certificate: Certificate,
  issuer: Issuer,
  wanted: SignatureAlgorithm,
): Promise<void> {
  const { tbs, signature, algorithm, name: field } = certificate;
  requireUnderstood(certificate);
  need(
    equal(certificate.issuer, issuer.subject),
    "chain",
    "issuer-name-mismatch",
    issuer.name,
    certificate.issuerCommonName,
    { field },
  );
  need(algorithmOf(algorithm) === wanted, "chain", "certificate-algorithm-unexpected", wanted, hex(algorithm), {
    field,
  });
  const holds = await signatureHolds(tbs, signature, algorithm, issuer.spki);
  need(holds, "chain", "certificate-signature-invalid", `a signature by ${issuer.name}`, "another", { field });
}

/** Holder of a name and dates: a certificate, or a root that is built in as a bare key. */
export interface Dated {
  readonly name: string;
  readonly notBefore: number;
  readonly notAfter: number;
}

/** The dates of a certificate, as checks show them. */
export const datesText = ({ name, notBefore, notAfter }: Dated): string =>
  `${name}: ${rfc3339(notBefore)} to ${rfc3339(notAfter)}`;

/** Require `notBefore <= at <= notAfter`: `certificate-not-yet-valid` or `certificate-expired`. */
export function requireValid({ name: field, notBefore, notAfter }: Dated, at: number): void {
  const dates = `${rfc3339(notBefore)} to ${rfc3339(notAfter)}`;
  need(notBefore <= at, "chain", "certificate-not-yet-valid", dates, rfc3339(at), { field });
  need(at <= notAfter, "chain", "certificate-expired", dates, rfc3339(at), { field });
}
