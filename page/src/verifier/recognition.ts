/** Is this an envelope? A service shows one; the code for everything else that may be evidence is loaded when it is met. */

import { isBundle } from "./endorsement_forms";
import type { NamedBytes } from "./endorsements";
import { type Evidence, MAX_ENVELOPE_BYTES, evidenceOf, parseEnvelope } from "./envelope";
import { AttestError, refusalOf } from "./errors";
import { type JsonValue, isObject, jsonValue } from "./json";
import { filesFormat } from "./lazy";
import type { Endorsements } from "./pool";
import { beginsTable } from "./snp/table";

/** Files of one Attester as one piece of evidence, with the endorsements among them. */
export interface Recognised {
  readonly evidence: Evidence;
  readonly presented: Partial<Endorsements>;
}

function isRecord(value: JsonValue | undefined): boolean {
  return Array.isArray(value) && typeof value[0] === "string" && /^[\w!#$&^.+-]{1,127}\/[\w!#$&^.+-]{1,127}\s*(?:;.*)?$/.test(value[0]);
}

function isCollection(value: JsonValue | undefined, depth: number): boolean {
  if (!isObject(value) || !depth) return false;
  const members = Object.values(value);
  return typeof value.__cmwc_t === "string" || (members.length > 0 && members.every((member) => isRecord(member) || isCollection(member, depth - 1)));
}

/** Whether JSON is a collection of records, or one record. */
export function isEnvelope(document: JsonValue): boolean {
  return isRecord(document) || isCollection(document, 4);
}

/** Recognise files of one Attester and put them together. */
export async function readEvidence(files: readonly NamedBytes[]): Promise<Recognised> {
  const [only] = files;
  if (only && files.length === 1 && only.bytes.length <= MAX_ENVELOPE_BYTES) {
    const [first = 0, ...next] = only.bytes.subarray(0, 4);
    // Three zeros behind it would make it the version of a report.
    const cbor = (first === 0x82 || first === 0x83 || (first >= 0xa0 && first <= 0xbb)) && next.some((byte) => byte);
    if (cbor && !isBundle(only.bytes) && !beginsTable(only.bytes)) return { evidence: parseEnvelope(only.bytes), presented: {} };
    const document = first === 0x7b || first === 0x5b ? await refusalOf(() => jsonValue(only.bytes, only.name)) : null;
    if (!(document instanceof AttestError) && isEnvelope(document)) return { evidence: evidenceOf(document, true), presented: {} };
  }
  return (await filesFormat()).readFiles(files);
}
