/** Rules that every vendor's chain shares: who may issue, who did, and when it counts. */

import { equal, hex, rfc3339 } from "./bytes";
import { type SignatureAlgorithm, algorithmOf, signatureHolds } from "./crypto";
import { DerError, DerReader, TAG, bits, booleanOrFalse, integer, onlyElement } from "./der";
import { AttestError, fail } from "./errors";
import { type Certificate, type Issuer, extensionOf } from "./x509";

const BASIC_CONSTRAINTS = "2.5.29.19";
const KEY_USAGE = "2.5.29.15";
const KEY_CERT_SIGN = 5;

/** Whether basicConstraints says CA:TRUE. */
export function isCa(certificate: Certificate): boolean {
  const constraints = extensionOf(certificate, BASIC_CONSTRAINTS);
  if (!constraints) return false;
  const inside = new DerReader(onlyElement(constraints.value, TAG.sequence).body);
  const ca = booleanOrFalse(inside);
  const pathLength = inside.maybe(TAG.integer);
  if (pathLength) integer(pathLength);
  inside.end();
  return ca;
}

/** Whether keyUsage is there and has this bit. */
export function hasUsage(certificate: Certificate, bit: number): boolean {
  const usage = extensionOf(certificate, KEY_USAGE);
  return usage !== undefined && ((bits(onlyElement(usage.value, TAG.bitString)).bytes[0] ?? 0) & (0x80 >> bit)) !== 0;
}

/**
 * Require that a certificate may issue others: CA:TRUE and keyCertSign, every critical extension understood.
 * Refuses with `ca-flags-missing` or `critical-extension-unknown`.
 *
 * NOTE: pathLenConstraint is not compared; each vendor's procedure fixes the length of its chain itself.
 */
export function requireCa(certificate: Certificate): void {
  requireUnderstood(certificate);
  let got: string;
  try {
    const [ca, sign] = [isCa(certificate), hasUsage(certificate, KEY_CERT_SIGN)];
    if (ca && sign) return;
    got = `CA:${ca}, keyCertSign:${sign}`;
  } catch (error) {
    if (!(error instanceof DerError)) throw error;
    got = `flags that cannot be read: ${error.message}`;
  }
  fail("chain", "ca-flags-missing", `${certificate.name} may not issue certificates`, {
    expected: "basicConstraints CA:TRUE and keyUsage keyCertSign",
    got,
    clause: "RFC 5280, section 4.2.1.3 and 4.2.1.9",
  });
}

function requireUnderstood(certificate: Certificate): void {
  const unknown = certificate.extensions
    .filter(({ oid, critical }) => critical && oid !== BASIC_CONSTRAINTS && oid !== KEY_USAGE)
    .map(({ oid }) => oid);
  if (unknown.length) {
    const problem = `${certificate.name} has a critical extension that is not understood`;
    fail("chain", "critical-extension-unknown", problem, { got: unknown.join(", "), clause: "RFC 5280, section 4.2" });
  }
}

/**
 * Require that `issuer` issued `certificate`: names byte by byte, the algorithm, the signature. Refuses with
 * `critical-extension-unknown`, `issuer-name-mismatch`, `certificate-algorithm-unexpected`,
 * `certificate-signature-invalid` or `public-key-invalid`.
 */
export async function requireIssued(
  certificate: Certificate,
  issuer: Issuer,
  algorithm: SignatureAlgorithm,
  check?: string,
): Promise<void> {
  requireUnderstood(certificate);
  if (!equal(certificate.issuer, issuer.subject)) {
    fail("chain", "issuer-name-mismatch", `${certificate.name} names another issuer than ${issuer.name}`, {
      check,
      expected: issuer.name,
      got: certificate.issuerCommonName ?? "a name without one CN",
    });
  }
  if (algorithmOf(certificate.algorithm) !== algorithm) {
    const got = hex(certificate.algorithm);
    fail("chain", "certificate-algorithm-unexpected", `${certificate.name} is signed with another algorithm`, {
      check,
      expected: algorithm,
      got,
    });
  }
  if (!(await signatureHolds(certificate.tbs, certificate.signature, certificate.algorithm, issuer.spki))) {
    const problem = `the signature of ${issuer.name} on ${certificate.name} does not verify`;
    fail("chain", "certificate-signature-invalid", problem, {
      check,
      expected: `a signature by ${issuer.name}`,
      got: "one that does not verify",
    });
  }
}

/** What has a name and dates: a certificate, or a root that is held as a bare key. */
export interface Dated {
  readonly name: string;
  readonly notBefore: number;
  readonly notAfter: number;
}

/** Require `notBefore <= at <= notAfter`: `certificate-not-yet-valid` or `certificate-expired`. */
export function requireValid(dated: Dated, at: number, check?: string): void {
  const { name, notBefore, notAfter } = dated;
  if (notBefore <= at && at <= notAfter) return;
  const code = at < notBefore ? "certificate-not-yet-valid" : "certificate-expired";
  throw new AttestError("chain", code, `${name} is not valid at ${rfc3339(at)}`, {
    check,
    expected: `${rfc3339(notBefore)} to ${rfc3339(notAfter)}`,
    got: rfc3339(at),
    clause: "RFC 5280, section 4.1.2.5",
  });
}
