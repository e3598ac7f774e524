/** Files as they come, and what they are taken for. */

import { type Bytes, latin1 } from "./bytes";
import type { Evidence } from "./envelope";
import { type JsonObject, type JsonValue, isObject } from "./json";
import type { Endorsements } from "./pool";

/** The largest is a bundle. */
export const MAX_FILE_BYTES = 16 * 1024 * 1024;

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

/**
 * True if the first bytes are a bundle's, of this version or another, signed or not: a map with a certain first name.
 */
export function isBundle(data: Bytes): boolean {
  return /^[\xa0-\xbb](?:fbundle|fformat.{1,2}attest\.endorsements\/)/s.test(latin1(data.subarray(0, 40)));
}

function isRecord(value: JsonValue | undefined): boolean {
  return (
    Array.isArray(value) &&
    typeof value[0] === "string" &&
    /^[\w!#$&^.+-]{1,127}\/[\w!#$&^.+-]{1,127}\s*(?:;.*)?$/.test(value[0])
  );
}

function isCollection(value: JsonValue | undefined, depth: number): boolean {
  if (!isObject(value) || !depth) return false;
  const members = Object.values(value);
  return (
    typeof value.__cmwc_t === "string" ||
    (members.length > 0 && members.every((member) => isRecord(member) || isCollection(member, depth - 1)))
  );
}

/** True if JSON is a collection of NVIDIA's SDK, which has the outer form of an envelope but is not one. */
export function isNvidiaCollection(document: JsonValue): document is JsonObject {
  if (!isObject(document)) return false;
  const { __cmwc_t: type } = document;
  return typeof type === "string" && type.startsWith("tag:nvidia.com,2026:verifier-input/");
}

/** True if JSON is a collection of records, or one record. */
export function isEnvelope(document: JsonValue): boolean {
  return isRecord(document) || (isCollection(document, 4) && !isNvidiaCollection(document));
}
