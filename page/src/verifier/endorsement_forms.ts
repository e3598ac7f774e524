/**
 * What endorsements in files look like: by what only they begin with. Their readers are loaded when one is met, so that a
 * page fetches no code for a vendor whose evidence it does not see.
 */

import { type Bytes, hex, latin1, trimmedEnd, unhex } from "./bytes";
import { TAG } from "./der";

const [MAX_COLLATERAL_BYTES, MAX_RIM_ANSWER_BYTES, RIM_HEAD_BYTES] = [4 * 1024 * 1024, 1024 * 1024, 1024];

/** Members of a JSON object that only Intel's collateral gives these names. */
const COLLATERAL =
  /"(?:pck_crl_issuer_chain|tcb_info_issuer_chain|qe_identity_issuer_chain|pck_certificate_chain|root_ca_crl|pck_crl|tcb_info|qe_identity|tcbInfo|enclaveIdentity)"[ \t\n\r]*:/;
/** A byte-order mark, a declaration, and the element. */
const SWID = /^(?:\xef\xbb\xbf)?[ \t\r\n]*(?:<\?xml[^>]{0,256}>[ \t\r\n]*)?<(?:[A-Za-z_][\w.-]{0,32}:)?SoftwareIdentity[ \t\r\n>/]/;

export function looksLikeCollateral(data: Bytes): boolean {
  return /^[ \t\n\r\0]*\{/.test(latin1(data.slice(0, 64))) && COLLATERAL.test(latin1(data.slice(0, MAX_COLLATERAL_BYTES)));
}

/** PEM text as it stands in headers of the PCS, percent-encoded. */
export function looksLikePercentPem(data: Bytes): boolean {
  return latin1(data).includes("-----BEGIN%20CERTIFICATE-----");
}

export function looksLikePem(data: Bytes): boolean {
  return /^-----BEGIN [A-Z0-9 ]{1,40}-----/m.test(latin1(data));
}

/** Whether this is a SWID document by its first element; nothing of it is parsed. */
export function looksLikeRim(data: Bytes): boolean {
  return SWID.test(latin1(data.subarray(0, RIM_HEAD_BYTES)));
}

/** Whether this is a JSON object with the members that an answer of the RIM service has. */
export function looksLikeRimAnswer(data: Bytes): boolean {
  const text = latin1(data.subarray(0, MAX_RIM_ANSWER_BYTES));
  return /^[ \t\r\n]*\{/.test(text) && /"rim"[ \t\r\n]*:[ \t\r\n]*"/.test(text) && /"sha256"[ \t\r\n]*:/.test(text);
}

/** Offset of what the SEQUENCE at this offset holds; the end of the data when no SEQUENCE begins here. */
function contentOfSequence(data: Bytes, at: number): number {
  const [tag, size = 0] = data.subarray(at, at + 2);
  return tag !== 0x30 || at + 2 > data.length ? data.length : at + 2 + (size > 0x80 ? size - 0x80 : 0);
}

/** Tell a certificate from a revocation list by the first element of what is signed; its lengths are for its reader. */
export function derKind(data: Bytes): "certificate" | "crl" | undefined {
  const first = contentOfSequence(data, contentOfSequence(data, 0));
  if (data[first] === 0xa0) return "certificate";
  return hex(data.subarray(first, first + 4)) === "02010130" ? "crl" : undefined;
}

/** Whether the first bytes are an OCSPResponse's: a SEQUENCE that begins with an ENUMERATED of one byte. */
export function looksLikeOcsp(data: Bytes): boolean {
  const size = data[1] ?? 0;
  const head = 2 + (size > 0x80 ? size - 0x80 : 0);
  return data[0] === TAG.sequence && data[head] === TAG.enumerated && data[head + 1] === 1;
}

/** The DER SEQUENCE that a whole file of hex digits spells, as mirrors of Intel's root CRL serve it. */
export function hexSequence(data: Bytes): Bytes | undefined {
  const text = trimmedEnd(latin1(data), " \t\n\r\0").replace(/^[ \t\n\r\0]+/, "");
  return text.length % 2 === 0 && /^30[0-9A-Fa-f]{8,}$/.test(text) ? unhex(text) : undefined;
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
  const isPadding = der.length > end && der.slice(end).every((byte) => byte === 0 || byte === 13 || byte === 10);
  return isPadding ? der.slice(0, end) : der;
}

/** Whether the first bytes are a bundle's, of this version or another, signed or not: a map with a certain first name. */
export function isBundle(data: Bytes): boolean {
  const [first = 0] = data;
  return first >= 0xa0 && first <= 0xbb && /^(?:fbundle|fformat.{1,2}attest\.endorsements\/)/s.test(latin1(data.subarray(1, 40)));
}
