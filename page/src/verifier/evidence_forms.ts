/** What evidence in files looks like, where that takes more than its first bytes. Reading it is for its own package. */

import { type Bytes, latin1 } from "./bytes";
import { type JsonValue, isObject } from "./json";

const AZURE_PLATFORMS: readonly JsonValue[] = ["az-snp", "az-tdx"];

/** Recognise the paravisor's evidence by members: alone, of no version, or in the outer object of attestation-rs. */
export function isAzureJson(document: JsonValue): boolean {
  if (!isObject(document)) return false;
  const inner = AZURE_PLATFORMS.includes(document.platform ?? null) ? document.evidence : document;
  return isObject(inner) && ("tpm_quote" in inner || "hcl_report" in inner || ("report" in inner && isObject(inner.quote)));
}

/** Recognise a serialised quote by the length of its signature and by what the message begins with. */
export function isRawTpmQuote(data: Bytes): boolean {
  const length = data.length < 8 ? 0 : Number(new DataView(data.buffer, data.byteOffset).getBigUint64(0, true));
  return [256, 384, 512].includes(length) && latin1(data.subarray(length + 16, length + 20)) === "\xffTCG";
}

/** Whether a document is NVIDIA's by its members, well formed or not. */
export function isNvidiaJson(document: JsonValue): boolean {
  if (Array.isArray(document)) return looksLikeDevice(document[0]);
  return isObject(document) && ("device_evidence_list" in document || "evidences" in document || looksLikeDevice(document));
}

/** A device is told by two of three members. */
function looksLikeDevice(value: JsonValue | undefined): boolean {
  return isObject(value) && ["arch", "evidence", "certificate"].filter((name) => name in value).length > 1;
}
