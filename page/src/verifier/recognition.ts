/**
 * Recognition of the input: a service presents an envelope and certificates. The code for every other form of
 * evidence and of endorsements is loaded when it is needed.
 */

import { type Bytes, hex } from "./bytes";
import { readCertificateFile } from "./certificate_files";
import { MAX_ENVELOPE_BYTES, evidenceOf, parseEnvelope } from "./envelope";
import { AttestError, refusalOf } from "./errors";
import { jsonValue } from "./json";
import { MAX_FILE_BYTES, type NamedBytes, type Recognised, isBundle, isEnvelope } from "./recognised";
import { type Endorsements, type Found, merged, nothingFound } from "./pool";
import { part } from "./parts";

const MAX_FILES = 16_384;
const MAX_ENDORSEMENTS = 16_384;

/** Recognise files of one Attester and put them together. */
export async function readEvidence(files: readonly NamedBytes[]): Promise<Recognised> {
  const [only] = files;
  if (only && files.length === 1 && only.bytes.length <= MAX_ENVELOPE_BYTES) {
    const [first] = only.bytes;
    // A map with a text as its first name; every other form of evidence goes on otherwise.
    const isCbor = /^(?:a.|b[\dab])[67]/.test(hex(only.bytes.subarray(0, 2))) && !isBundle(only.bytes);
    if (isCbor) return { evidence: parseEnvelope(only.bytes), presented: {} };
    const document = first === 0x7b ? await refusalOf(() => jsonValue(only.bytes, only.name)) : null;
    const isCollection = document !== null && !(document instanceof AttestError) && isEnvelope(document);
    if (isCollection) return { evidence: evidenceOf(document, only.bytes.length, true), presented: {} };
  }
  return (await part(import("./files"))).readFiles(files);
}

/**
 * Read endorsements out of files of any form; what cannot be read is missing, and for any bytes at all nothing is
 * thrown.
 */
export async function readEndorsements(files: readonly NamedBytes[], at: number): Promise<Endorsements> {
  const found = nothingFound();
  for (const { bytes } of files.slice(0, MAX_FILES)) {
    if (bytes.length > MAX_FILE_BYTES) continue;
    if (Object.values(found).reduce((count, each) => count + each.length, 0) >= MAX_ENDORSEMENTS) break;
    await refusalOf(async () => readEndorsementsOf(bytes, found, at));
  }
  return merged(found, {});
}

async function readEndorsementsOf(bytes: Bytes, found: Found, at: number): Promise<void> {
  if (isBundle(bytes)) await (await part(import("./bundle"))).readBundle(bytes, found, at);
  else if (!(await readCertificateFile(bytes, found))) {
    await (await part(import("./files"))).readEndorsementFile(bytes, found);
  }
}
