/**
 * Certificates as the vendors really issue them: serial number 0, leaves without basicConstraints, PSS defaults that
 * are spelled out. The bytes are kept as received, and every rule is left to `chain.ts`.
 */

import { type Bytes, hex, latin1 } from "./bytes";
import { sha256 } from "./crypto";
import { DerReader, TAG, all, booleanOrFalse, defect, integer, oid, onlyElement, reading, requireSetOrder, time, wholeBits } from "./der";

/** AMD's and Intel's certificates have 1 to 2 KiB, NVIDIA's up to 1 KiB; nothing in this field needs more. */
export const MAX_CERTIFICATE_BYTES = 16 * 1024;
const MAX_EXTENSIONS = 64;
const COMMON_NAME = "2.5.4.3";

export interface Extension {
  readonly oid: string;
  readonly critical: boolean;
  /** What the OCTET STRING holds. */
  readonly value: Bytes;
}

/** Who may have signed: a name and a key. An anchor that is held as a bare key is one too. */
export interface Issuer {
  readonly name: string;
  /** DER Name. */
  readonly subject: Bytes;
  /** DER SubjectPublicKeyInfo. */
  readonly spki: Bytes;
}

/** An X.509 v3 certificate as presented: a stranger's word until its chain is verified. It is an `Issuer` too. */
export interface Certificate extends Issuer {
  readonly der: Bytes;
  readonly tbs: Bytes;
  readonly signature: Bytes;
  /** DER AlgorithmIdentifier; inner and outer one are equal byte by byte. */
  readonly algorithm: Bytes;
  readonly serial: bigint;
  readonly issuer: Bytes;
  /** The subject's only CN; undefined when there is none, two, or one that is no plain text. */
  readonly commonName: string | undefined;
  readonly issuerCommonName: string | undefined;
  /** First valid millisecond. */
  readonly notBefore: number;
  /** Last valid moment, included. */
  readonly notAfter: number;
  readonly extensions: readonly Extension[];
}

/** What a certificate, a revocation list and an OCSP answer are alike: something signed, an algorithm, a signature. */
export interface Signed {
  readonly tbs: Bytes;
  readonly inside: DerReader;
  readonly algorithm: Bytes;
  readonly signature: Bytes;
}

export function signedParts(der: Bytes, limit: number): Signed {
  if (der.length > limit) defect(`${der.length} bytes, more than ${limit}`);
  const outer = new DerReader(onlyElement(der, TAG.sequence).body);
  const tbs = outer.next(TAG.sequence);
  const algorithm = outer.next().whole;
  const signature = wholeBits(outer.next(TAG.bitString), "signature");
  outer.end();
  return { tbs: tbs.whole, inside: new DerReader(tbs.body), algorithm, signature };
}

/** The outer algorithm is not signed: a flipped byte in it would pass. */
export function requireSameAlgorithm(inner: Bytes, outer: Bytes): void {
  if (hex(inner) !== hex(outer)) defect("the signature algorithm outside differs from the signed one inside");
}

/** SEQUENCE OF Extension: few, and none of them twice. */
export function readExtensions(content: Bytes): Extension[] {
  const found = all(onlyElement(content, TAG.sequence).body, readExtension);
  if (found.length > MAX_EXTENSIONS) defect(`${found.length} extensions, more than ${MAX_EXTENSIONS}`);
  if (new Set(found.map((extension) => extension.oid)).size !== found.length) defect("one extension stands twice");
  return found;
}

export function readExtension(reader: DerReader): Extension {
  const inside = reader.sequence();
  const extension = {
    oid: oid(inside.next(TAG.oid)),
    critical: booleanOrFalse(inside),
    value: inside.next(TAG.octetString).body,
  };
  inside.end();
  return extension;
}

/** The CN of a DER Name; undefined when there is none, two, or one that is no printable ASCII. */
export function commonNameOf(name: Bytes): string | undefined {
  const values = all(onlyElement(name, TAG.sequence).body, (names) => {
    const set = names.next(TAG.set);
    requireSetOrder(all(set.body, (reader) => reader.next()));
    return all(set.body, (reader) => {
      const attribute = reader.sequence();
      const found = { oid: oid(attribute.next(TAG.oid)), text: latin1(attribute.next().body) };
      attribute.end();
      return found;
    });
  })
    .flat()
    .filter((attribute) => attribute.oid === COMMON_NAME);
  const [only] = values;
  return values.length === 1 && only && /^[ -~]*$/.test(only.text) ? only.text : undefined;
}

/** Read one X.509 v3 certificate, nothing before or after it: `certificate-malformed` (RFC 5280, section 4.1). */
export function parseCertificate(der: Bytes): Certificate {
  return reading("certificate", () => {
    const { tbs, inside, algorithm, signature } = signedParts(der, MAX_CERTIFICATE_BYTES);
    const version = integer(onlyElement(inside.next(0xa0).body, TAG.integer));
    const serial = integer(inside.next(TAG.integer));
    requireSameAlgorithm(inside.next().whole, algorithm);
    if (version !== 2n) defect(`version ${version + 1n}, expected 3`);
    const issuer = inside.next().whole;
    const validity = inside.sequence();
    const [notBefore, notAfter] = [time(validity.next()), time(validity.next())];
    validity.end();
    const subject = inside.next().whole;
    const spki = inside.next().whole;
    const extensions = readExtensions(inside.next(0xa3).body);
    inside.end();
    const commonName = commonNameOf(subject);
    return {
      der,
      tbs,
      signature,
      algorithm,
      serial,
      issuer,
      subject,
      commonName,
      name: commonName ?? `certificate with serial ${serial}`,
      issuerCommonName: commonNameOf(issuer),
      notBefore,
      notAfter,
      spki,
      extensions,
    };
  });
}

/** The extension with this identifier; there is never more than one. */
export function extensionOf(certificate: Certificate, identifier: string): Extension | undefined {
  return certificate.extensions.find((extension) => extension.oid === identifier);
}

/** What anchors are pinned by: hex of the SHA-256 of the SubjectPublicKeyInfo. */
export async function spkiPin(issuer: Issuer): Promise<string> {
  return hex(await sha256(issuer.spki));
}
