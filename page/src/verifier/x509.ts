/**
 * Certificates as the vendors really issue them: serial number 0, leaves without basicConstraints, PSS defaults that
 * are spelled out. The bytes are kept as received, and every rule is left to `chain.ts`.
 */

import { type Bytes, equal, hex, latin1 } from "./bytes";
import { sha256 } from "./crypto";
import {
  DerReader,
  TAG,
  all,
  booleanOrFalse,
  defect,
  integer,
  oid,
  onlyElement,
  onlySequence,
  reading,
  requireSetOrder,
  time,
  wholeBits,
} from "./der";

export interface Extension {
  readonly oid: string;
  readonly critical: boolean;
  /** Content of the OCTET STRING. */
  readonly value: Bytes;
}

/** Possible signer: a name and a key. An anchor that is built in as a bare key is one too. */
export interface Issuer {
  readonly name: string;
  /** DER Name. */
  readonly subject: Bytes;
  /** DER SubjectPublicKeyInfo. */
  readonly spki: Bytes;
}

/** An X.509 v3 certificate as presented: untrusted until its chain is verified. It is an `Issuer` too. */
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

/** Common form of a certificate, a revocation list and an OCSP answer: signed bytes, an algorithm, a signature. */
export interface Signed {
  readonly tbs: Bytes;
  readonly inside: DerReader;
  readonly algorithm: Bytes;
  readonly signature: Bytes;
}

export function signedParts(der: Bytes, limit: number): Signed {
  if (der.length > limit) defect(`${der.length} bytes`);
  const outer = onlySequence(der);
  const tbs = outer.next(TAG.sequence);
  const algorithm = outer.next().whole;
  const signature = wholeBits(outer.next(TAG.bitString));
  outer.end();
  return { tbs: tbs.whole, inside: new DerReader(tbs.body), algorithm, signature };
}

/** The outer algorithm is not signed: a flipped byte in it would pass. */
export function requireSameAlgorithm(inner: Bytes, outer: Bytes): void {
  if (!equal(inner, outer)) defect("algorithm");
}

/** SEQUENCE OF Extension: few, and none of them twice. */
export function readExtensions(content: Bytes): Extension[] {
  const found = all(onlyElement(content, TAG.sequence).body, readExtension);
  if (found.length > 64 || new Set(found.map((extension) => extension.oid)).size < found.length) defect("extensions");
  return found;
}

export function readExtension(reader: DerReader): Extension {
  const inside = reader.sequence();
  const id = oid(inside.next(TAG.oid));
  const critical = booleanOrFalse(inside);
  const { body: value } = inside.next(TAG.octetString);
  inside.end();
  return { oid: id, critical, value };
}

/** The CN of a DER Name, or another attribute; undefined when there is none, two, or one that is no printable ASCII. */
export function commonNameOf(name: Bytes, wanted = "2.5.4.3"): string | undefined {
  const [only, ...more] = all(onlyElement(name, TAG.sequence).body, (names) => {
    const { body } = names.next(TAG.set);
    requireSetOrder(all(body, (reader) => reader.next()));
    return all(body, (reader) => {
      const attribute = reader.sequence();
      const kind = oid(attribute.next(TAG.oid));
      const value = attribute.next();
      attribute.end();
      return kind === wanted ? [latin1(value.body)] : [];
    });
  }).flat(2);
  return more.length || /[^ -~]/.test(only ?? "") ? undefined : only;
}

/** Read one X.509 v3 certificate, nothing before or after it: `certificate-malformed` (RFC 5280, section 4.1). */
export const parseCertificate = (der: Bytes): Certificate => reading("certificate", () => readCertificate(der));

/** The same inside another document, whose code a defect then gets. */
export function readCertificate(der: Bytes): Certificate {
  // AMD's and Intel's have 1 to 2 KiB, NVIDIA's up to 1 KiB; nothing in this field needs more.
  const { tbs, inside, algorithm, signature } = signedParts(der, 16 * 1024);
  if (integer(onlyElement(inside.next(0xa0).body, TAG.integer)) !== 2n) defect("version");
  const serial = integer(inside.next(TAG.integer));
  requireSameAlgorithm(inside.next().whole, algorithm);
  const issuer = inside.next().whole;
  const validity = inside.sequence();
  const notBefore = time(validity.next());
  const notAfter = time(validity.next());
  validity.end();
  const subject = inside.next().whole;
  const spki = inside.next().whole;
  const extensions = readExtensions(inside.next(0xa3).body);
  inside.end();
  const commonName = commonNameOf(subject);
  const issuerCommonName = commonNameOf(issuer);
  const name = commonName ?? `serial ${serial}`;
  return {
    der,
    tbs,
    signature,
    algorithm,
    serial,
    issuer,
    subject,
    commonName,
    name,
    issuerCommonName,
    notBefore,
    notAfter,
    spki,
    extensions,
  };
}

/** The extension with this identifier; there is never more than one. */
export const extensionOf = ({ extensions }: Certificate, wanted: string): Extension | undefined =>
  extensions.find(({ oid }) => oid === wanted);

/** Pin of an anchor: hex of the SHA-256 of the SubjectPublicKeyInfo. */
export const spkiPin = async ({ spki }: Issuer): Promise<string> => hex(await sha256(spki));
