/**
 * Certificates and revocation lists in DER or PEM, as a service sends them with its evidence. What cannot be read is
 * passed over, and is then missing. Nothing is trusted.
 */

import { type Bytes, hex, latin1 } from "./bytes";
import { parseCrl } from "./crl";
import { refusalOf } from "./errors";
import { readPemBlocks } from "./pem";
import type { Found } from "./pool";
import { parseCertificate } from "./x509";

const MAX_PEM_BLOCKS = 4096;
const PEM_HEAD = /(?<![^\n])(?=-----BEGIN [A-Z0-9 ]{1,40}-----)/;
const PEM_KINDS: Readonly<Record<string, "certificates" | "crls">> = {
  CERTIFICATE: "certificates",
  "X509 CRL": "crls",
};

export type DerKind = "certificates" | "crls" | "ocsp";

/** Add what a file holds; false for a file of another form, of which nothing was read. */
export async function readCertificateFile(data: Bytes, found: Found): Promise<boolean> {
  const kind = derKind(data);
  if (kind === "certificates" || kind === "crls") {
    await refusalOf(() => addSigned(kind, data, found));
    return true;
  }
  const text = latin1(data);
  if (!text.startsWith("-----BEGIN ") || text.includes("-----BEGIN%20")) return false;
  await readPem(text, found);
  return true;
}

/** Offset of what the SEQUENCE at this offset holds; the end of the data when no SEQUENCE begins here. */
function contentOfSequence(data: Bytes, at: number): number {
  const [tag, size = 0] = data.subarray(at, at + 2);
  return tag !== 0x30 || at + 2 > data.length ? data.length : at + 2 + (size > 0x80 ? size - 0x80 : 0);
}

/**
 * Tell a certificate, a list and an OCSP answer by the first element of what is signed; their lengths are for their
 * readers.
 */
export function derKind(data: Bytes): DerKind | undefined {
  const outer = contentOfSequence(data, 0);
  if (hex(data.subarray(outer, outer + 2)).startsWith("0a01")) return "ocsp";
  const first = contentOfSequence(data, outer);
  if (data[first] === 0xa0) return "certificates";
  return hex(data.subarray(first, first + 4)) === "02010130" ? "crls" : undefined;
}

/**
 * Cut NUL bytes and line ends behind a DER element, which several clients append to a list.
 *
 * Only what stands behind the length that the element itself states is cut, and only when it is nothing else: a
 * signature may well end in such a byte.
 */
export function derWithoutPadding(der: Bytes): Bytes {
  const [, head = 0] = der;
  const size = head < 0x80 ? 0 : head - 0x80;
  const length = size ? der.slice(2, 2 + size).reduce((value, byte) => value * 256 + byte, 0) : head;
  const end = 2 + size + length;
  return der.slice(end).every((byte) => [0, 10, 13].includes(byte)) ? der.slice(0, end) : der;
}

/** Add a certificate or a list: what its reader refuses. */
export function addSigned(kind: "certificates" | "crls", der: Bytes, found: Found): void {
  if (kind === "certificates") found.certificates.push(parseCertificate(der));
  else found.crls.push(parseCrl(derWithoutPadding(der)));
}

/** Add the blocks of a PEM file; one that is broken takes none of its neighbours along. */
export async function readPem(text: string, found: Found): Promise<void> {
  const parts = text.split(PEM_HEAD).filter((part) => part.startsWith("-----BEGIN "));
  if (parts.length > MAX_PEM_BLOCKS) return;
  for (const part of parts) {
    await refusalOf(() => {
      const [block] = readPemBlocks(part);
      const kind = block && PEM_KINDS[block.label];
      if (kind) addSigned(kind, block.content, found);
    });
  }
}
