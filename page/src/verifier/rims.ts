/** Reference integrity manifests of NVIDIA, as the exact bytes that were signed, and the answers that bring them. */

import { type Bytes, base64Bytes, equal, hex, hexBytes } from "./bytes";
import { sha256 } from "./crypto";
import { looksLikeRim } from "./endorsement_forms";
import { AttestError } from "./errors";
import { isObject, jsonValue } from "./json";
import { MAX_RIM_BYTES } from "./xml/parse";
import { malformed } from "./xml/refusal";

/** Base64 of the document, and a few short members. */
export const MAX_RIM_ANSWER_BYTES = Math.floor(MAX_RIM_BYTES / 3) * 4 + 8192;

const ID = /^NV_[A-Za-z0-9_.-]{1,125}$/;

/** A RIM as presented: a stranger's word until its signature and its signers are verified. */
export interface RimDocument {
  /** The SWID document, exactly as it was served and signed; `der` as everything in a pool calls its bytes. */
  readonly der: Bytes;
}

/** Take bytes for a RIM that begin like one: `rim-malformed`. */
export function readRimDocument(xml: Bytes): RimDocument {
  if (xml.length <= MAX_RIM_BYTES && looksLikeRim(xml)) return { der: xml };
  const expected = `the element SoftwareIdentity, at most ${MAX_RIM_BYTES} bytes`;
  throw malformed("another document, or too long", { field: "rim", expected, got: `${xml.length} bytes` });
}

/**
 * Read an answer of NVIDIA's RIM service, JSON `{"id", "rim", "sha256", …}`, and compare the digest that it states.
 *
 * @throws AttestError `rim-answer-malformed` or `rim-malformed`; or `json-invalid`, `base64-invalid` or `hex-invalid`.
 */
export async function readRimAnswer(data: Bytes): Promise<RimDocument> {
  if (data.length > MAX_RIM_ANSWER_BYTES) throw refusal("answer", `at most ${MAX_RIM_ANSWER_BYTES} bytes`, `${data.length} bytes`);
  const members = jsonValue(data, "answer of the RIM service");
  const { id, rim, sha256: stated } = isObject(members) ? members : {};
  if (typeof id !== "string" || typeof rim !== "string" || typeof stated !== "string") {
    throw refusal("answer", "an object with texts under id, rim and sha256", "something else");
  }
  if (!ID.test(id)) throw refusal("id", "the id of a RIM", id.slice(0, 40));
  const xml = base64Bytes(rim, "rim");
  const found = await sha256(xml);
  if (!equal(found, hexBytes(stated, "sha256", 32))) throw refusal("sha256", hex(found), stated);
  return readRimDocument(xml);
}

function refusal(field: string, expected: string, got: string): AttestError {
  const message = `answer of the RIM service: ${field}: expected ${expected}, got ${got}`;
  return new AttestError("malformed", "rim-answer-malformed", message, { field, expected, got, clause: "nvidia-gpu.md 9.1" });
}
