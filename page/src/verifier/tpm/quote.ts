/** TPM 2.0 quotes (TPMS_ATTEST): their structure, and what makes one genuine. All integers are big-endian. */

import { type Bytes, concat, hex } from "../bytes";
import { Reader } from "../reader";
import { same } from "../procedure";
import { sha256 } from "../crypto";
import { type Demand, demandsOf, need } from "../errors";

export const MAX_PCRS = 24;
export const PCR_BYTES = 32;
const SHA256 = 0x000b;
const MAX = {
  selections: 16,
  name: 68,
  data: 66,
  digest: 64,
} as const;
const SELECT_BYTES = 3;

const demand: Demand = demandsOf("malformed", "tpm-quote-malformed");

/** A quote as presented: untrusted until its signature is verified. */
export type TpmQuote = ReturnType<typeof parseTpmQuote>;

/**
 * Read a quote: `truncated`, `trailing-bytes`, `tpm-quote-malformed`, or `tpm-attest-unsupported` for anything else.
 */
export function parseTpmQuote(data: Bytes) {
  const reader = new Reader(data, "TPM quote");
  const number = (size: number, field: string): number => reader.unsigned(size, field, "big");
  // (1) What is no quote (TPM_GENERATED_VALUE, TPM_ST_ATTEST_QUOTE) is refused before the rest is read as one.
  for (const [field, wanted] of [
    ["magic", "ff544347"],
    ["type", "8018"],
  ] as const) {
    const found = hex(reader.take(wanted.length / 2, field));
    need(found === wanted, "unsupported", "tpm-attest-unsupported", wanted, found, { field });
  }
  const sized = (field: string, most: number): Bytes => {
    const length = number(2, field);
    demand(length <= most, field, most, length);
    return reader.take(length, field);
  };
  // (2) The rest, to its end.
  const claims = {
    qualified_signer: sized("qualified_signer", MAX.name),
    extra_data: sized("extra_data", MAX.data),
    clock: reader.unsigned64("clock", "big"),
    reset_count: number(4, "reset_count"),
    restart_count: number(4, "restart_count"),
    safe: number(1, "safe"),
    firmware_version: reader.take(8, "firmware_version"),
  };
  const field = "selections";
  const count = number(4, field);
  demand(count <= MAX.selections, field, MAX.selections, count);
  const selections = Array.from({ length: count }, () => {
    const algorithm = number(2, field);
    const size = number(1, field);
    demand(size === SELECT_BYTES, field, SELECT_BYTES, size);
    const bitmap = reader.unsigned(size, field);
    return { algorithm, registers: [...Array(MAX_PCRS).keys()].filter((index) => (bitmap >> index) & 1) };
  });
  const pcrDigest = sized("pcrDigest", MAX.digest);
  reader.finish();
  demand(claims.safe < 2, "safe", "0 or 1", claims.safe);
  return { claims: { ...claims, safe: Boolean(claims.safe) }, selections, pcrDigest };
}

/** The registers that a quote covers, ascending, with their values; no others are signed. */
export type PcrValues = readonly (readonly [register: number, value: Bytes])[];

/** Refuses with `tpm-pcr-bank-unexpected`, `tpm-pcr-count-mismatch` or `tpm-pcr-digest-mismatch`. */
export async function requirePcrValues(
  { selections, pcrDigest }: TpmQuote,
  values: readonly Bytes[],
): Promise<PcrValues> {
  const [only, other] = selections;
  const isOneBank = !other && only?.algorithm === SHA256 && only.registers.length;
  need(isOneBank, "binding", "tpm-pcr-bank-unexpected", "SHA-256", JSON.stringify(selections), { field: "selections" });
  same("tpm-pcr-count-mismatch", "pcrs", only.registers.length, values.length);
  same("tpm-pcr-digest-mismatch", "pcrDigest", pcrDigest, await sha256(concat(...values)));
  return values.map((value, i) => [only.registers[i]!, value]);
}
