/** Azure's evidence in files: its JSON by its members, and the pieces as they leave the vTPM, written as that JSON. */

import { type Bytes, base64urlText, hex, latin1, utf8 } from "./bytes";
import { Reader } from "./reader";
import { fail } from "./errors";
import { type JsonValue, isObject } from "./json";

const PLATFORMS: readonly unknown[] = ["az-snp", "az-tdx"];
const MAX_SIGNATURE_BYTES = 512;
const MAX_MESSAGE_BYTES = 1024;
const MAX_PCRS = 24;
const PCR_BYTES = 32;

/** The paravisor's evidence: alone, of no version, or in the outer object of attestation-rs. */
export function isAzureJson(document: JsonValue): boolean {
  if (!isObject(document)) return false;
  const inner = PLATFORMS.includes(document.platform) ? document.evidence : document;
  return (
    isObject(inner) && ("tpm_quote" in inner || "hcl_report" in inner || ("report" in inner && isObject(inner.quote)))
  );
}

/** A serialised quote, by the length of its signature and by what the message begins with. */
export function isRawTpmQuote(data: Bytes): boolean {
  const length = data.length < 8 ? 0 : Number(new DataView(data.buffer, data.byteOffset).getBigUint64(0, true));
  return [256, 384, 512].includes(length) && latin1(data.subarray(length + 16, length + 20)) === "\xffTCG";
}

/**
 * Write raw pieces as evidence in JSON, version 1; az-cvm-vtpm serialises a quote as u64 length and signature, u64
 * length and message, u64 count and values.
 */
export function azureJson(hcl: Bytes, quote: Bytes, tdQuote: Bytes | undefined): Bytes {
  const reader = new Reader(quote, "TPM quote of the vTPM");
  const bounded = (field: string, most: number): number => {
    const length = reader.unsigned64(field);
    return length > BigInt(most)
      ? fail("malformed", "azure-form-malformed", "", { field, expected: `at most ${most}`, got: `${length}` })
      : Number(length);
  };
  const signature = hex(reader.take(bounded("signature", MAX_SIGNATURE_BYTES), "signature"));
  const message = hex(reader.take(bounded("message", MAX_MESSAGE_BYTES), "message"));
  const pcrs = Array.from({ length: bounded("pcrs", MAX_PCRS) }, () => hex(reader.take(PCR_BYTES, "pcrs")));
  reader.finish();
  const td = tdQuote && { td_quote: base64urlText(tdQuote) };
  const members = { version: 1, tpm_quote: { signature, message, pcrs }, hcl_report: base64urlText(hcl), ...td };
  // With the blanks of Python's JSON, so that the digest of the evidence is the same; no value has these characters.
  return utf8(JSON.stringify(members).replaceAll(/[:,]/g, "$& "));
}
