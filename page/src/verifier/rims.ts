/** Reference integrity manifests of NVIDIA, as the exact bytes that were signed, and the answers that bring them. */

import { type Bytes, equal, latin1 } from "./bytes";
import { base64Bytes, hexBytes } from "./encoding";
import { sha256 } from "./crypto";
import { fail } from "./errors";
import { isObject, jsonValue } from "./json";
import { MAX_RIM_BYTES, malformed } from "./rim_form";

/** Base64 of the document, and a few short members. */
export const MAX_RIM_ANSWER_BYTES = Math.floor(MAX_RIM_BYTES / 3) * 4 + 8192;

/** A byte-order mark, a declaration, and the element. */
const BLANKS = "[ \\t\\r\\n]";
const SWID = new RegExp(
  `^(?:\\xef\\xbb\\xbf)?${BLANKS}*(?:<\\?xml[^>]{0,256}>${BLANKS}*)?` +
    `<(?:[A-Za-z_][\\w.-]{0,32}:)?SoftwareIdentity[ \\t\\r\\n>/]`,
);
const ID = /^NV_[A-Za-z0-9_.-]{1,125}$/;

/** A RIM as presented: untrusted until its signature and its signers are verified. */
export interface RimDocument {
  /** The SWID document, exactly as it was served and signed; `der` as everything in a pool calls its bytes. */
  readonly der: Bytes;
}

/** True if this is a SWID document by its first element; nothing of it is parsed. */
export function looksLikeRim(data: Bytes): boolean {
  return SWID.test(latin1(data));
}

/** Take bytes for a RIM that begin like one: `rim-malformed`. */
export function readRimDocument(xml: Bytes): RimDocument {
  return xml.length <= MAX_RIM_BYTES && looksLikeRim(xml) ? { der: xml } : malformed();
}

/**
 * Read an answer of NVIDIA's RIM service, JSON `{"id", "rim", "sha256", …}`, and compare the digest that it states.
 *
 * @throws AttestError `rim-answer-malformed` or `rim-malformed`; or `json-invalid`, `base64-invalid` or `hex-invalid`.
 */
export async function readRimAnswer(data: Bytes): Promise<RimDocument> {
  const members = data.length > MAX_RIM_ANSWER_BYTES ? null : jsonValue(data, "RIM");
  const { id, rim, sha256: stated } = isObject(members) ? members : {};
  if (typeof id !== "string" || typeof rim !== "string" || typeof stated !== "string" || !ID.test(id)) {
    return fail("malformed", "rim-answer-malformed", "");
  }
  const xml = base64Bytes(rim, "rim");
  if (!equal(await sha256(xml), hexBytes(stated, "sha256", 32))) {
    fail("malformed", "rim-answer-malformed", "", { field: "sha256" });
  }
  return readRimDocument(xml);
}
