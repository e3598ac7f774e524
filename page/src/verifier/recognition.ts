/**
 * What came: a service shows an envelope, and hands out bundles. The code for every other form of evidence and of
 * endorsements is loaded when one is met.
 */

import { type Bytes, hex, latin1 } from "./bytes";
import { type Evidence, MAX_ENVELOPE_BYTES, evidenceOf, parseEnvelope } from "./envelope";
import { AttestError, refusalOf } from "./errors";
import { isObject, jsonValue } from "./json";
// Most formats need it, so it is in the file that all of them share.
import "./pem";
import { readBundle } from "./bundle";
import { filesFormat } from "./lazy";
import { type Endorsements, merged, nothingFound } from "./pool";

/** The largest is a bundle. */
export const MAX_FILE_BYTES = 16 * 1024 * 1024;
const MAX_FILES = 16_384;
const MAX_ENDORSEMENTS = 16_384;

/** One file. */
export interface NamedBytes {
  readonly name: string;
  readonly bytes: Bytes;
}

/** Files of one Attester as one piece of evidence, with the endorsements among them. */
export interface Recognised {
  readonly evidence: Evidence;
  readonly presented: Partial<Endorsements>;
}

/** Whether the first bytes are a bundle's, of this version or another, signed or not: a map with a certain first name. */
export function isBundle(data: Bytes): boolean {
  return /^[\xa0-\xbb](?:fbundle|fformat.{1,2}attest\.endorsements\/)/s.test(latin1(data.subarray(0, 40)));
}

/** Recognise files of one Attester and put them together. */
export async function readEvidence(files: readonly NamedBytes[]): Promise<Recognised> {
  const [only] = files;
  if (only && files.length === 1 && only.bytes.length <= MAX_ENVELOPE_BYTES) {
    const [first] = only.bytes;
    // A map with a text as its first name; every other form of evidence goes on otherwise.
    const isCbor = /^(?:a.|b[\dab])[67]/.test(hex(only.bytes.subarray(0, 2))) && !isBundle(only.bytes);
    if (isCbor) return { evidence: parseEnvelope(only.bytes), presented: {} };
    const document = first === 0x7b ? await refusalOf(() => jsonValue(only.bytes, only.name)) : null;
    // Collections that do not say so are recognised among all other forms.
    const isCollection =
      !(document instanceof AttestError) && isObject(document) && typeof document.__cmwc_t === "string";
    if (isCollection) return { evidence: evidenceOf(document, only.bytes.length, true), presented: {} };
  }
  return (await filesFormat()).readFiles(files);
}

/** Read endorsements out of files of any form; what cannot be read is missing, and for any bytes at all nothing is thrown. */
export async function readEndorsements(files: readonly NamedBytes[], at: number): Promise<Endorsements> {
  const found = nothingFound();
  for (const { bytes } of files.slice(0, MAX_FILES)) {
    if (bytes.length > MAX_FILE_BYTES) continue;
    if (Object.values(found).reduce((count, each) => count + each.length, 0) >= MAX_ENDORSEMENTS) break;
    await refusalOf(async () =>
      isBundle(bytes) ? readBundle(bytes, found, at) : (await filesFormat()).readEndorsementFile(bytes, found),
    );
  }
  return merged(found, {});
}
