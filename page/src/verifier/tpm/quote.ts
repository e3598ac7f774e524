/** TPM 2.0 quotes (TPMS_ATTEST): their structure, and what makes one genuine. All integers are big-endian. */

import { type Bytes, Reader, concat, equal, hex } from "../bytes";
import { rsaHolds, sha256 } from "../crypto";
import { fail } from "../errors";

export const MAX_PCRS = 24;
export const PCR_BYTES = 32;
const SHA256 = 0x000b;
const [MAGIC, QUOTE] = [0xff544347, 0x8018];
const [MAX_SELECTIONS, SELECT_BYTES, MAX_NAME_BYTES, MAX_DATA_BYTES, MAX_DIGEST_BYTES] = [16, 3, 68, 66, 64];
const CLAUSE = "TPM 2.0 Library, part 2, TPMS_ATTEST; azure-cvm.md 5";

export interface PcrSelection {
  readonly algorithm: number;
  /** The registers, ascending. */
  readonly indices: readonly number[];
}

/** A quote as presented: a stranger's word until its signature is verified. */
export interface TpmQuote {
  readonly qualifiedSigner: Bytes;
  /** What the TPM was asked under. */
  readonly extraData: Bytes;
  readonly clock: bigint;
  readonly resetCount: number;
  readonly restartCount: number;
  readonly safe: boolean;
  readonly firmwareVersion: Bytes;
  readonly selections: readonly PcrSelection[];
  readonly pcrDigest: Bytes;
}

function malformed(field: string, expected: string, got: string): never {
  const facts = { field, expected, got, clause: CLAUSE };
  return fail("malformed", "tpm-quote-malformed", "", facts);
}

/** Read a quote: `truncated`, `trailing-bytes`, `tpm-quote-malformed`, or `tpm-attest-unsupported` for anything else. */
export function parseTpmQuote(data: Bytes): TpmQuote {
  const reader = new Reader(data, "TPM quote");
  const number = (size: number, field: string): number => reader.unsigned(size, field, "big");
  // (1) What is no quote is refused before the rest is read by a table that is not its own.
  for (const [field, size, wanted] of [["magic", 4, MAGIC], ["type", 2, QUOTE]] as const) {
    const found = number(size, field);
    if (found === wanted) continue;
    const facts = { field, expected: `0x${wanted.toString(16)}`, got: `0x${found.toString(16)}`, clause: CLAUSE };
    fail("unsupported", "tpm-attest-unsupported", "", facts);
  }
  const sized = (field: string, limit: number): Bytes => {
    const length = number(2, `${field}, length`);
    return length > limit ? malformed(field, `at most ${limit} bytes`, `${length} bytes`) : reader.take(length, field);
  };
  // (2) The rest, to its end.
  const qualifiedSigner = sized("qualified_signer", MAX_NAME_BYTES);
  const extraData = sized("extra_data", MAX_DATA_BYTES);
  const clock = reader.unsigned64("clock", "big");
  const [resetCount, restartCount, safe] = [number(4, "reset_count"), number(4, "restart_count"), number(1, "safe")];
  const firmwareVersion = reader.take(8, "firmware_version");
  const selections = readSelections(reader, number(4, "selections, count"));
  const pcrDigest = sized("pcr_digest", MAX_DIGEST_BYTES);
  reader.finish();
  if (safe > 1) malformed("safe", "0 or 1", `${safe}`);
  return { qualifiedSigner, extraData, clock, resetCount, restartCount, safe: safe === 1, firmwareVersion, selections, pcrDigest };
}

function readSelections(reader: Reader, count: number): PcrSelection[] {
  if (count > MAX_SELECTIONS) malformed("selections", `at most ${MAX_SELECTIONS}`, `${count}`);
  return Array.from({ length: count }, (_, i) => {
    const algorithm = reader.unsigned(2, `selections[${i}], hash`, "big");
    const size = reader.unsigned(1, `selections[${i}], size`);
    if (size !== SELECT_BYTES) malformed(`selections[${i}]`, `a bitmap of ${SELECT_BYTES} bytes`, `${size} bytes`);
    const bitmap = reader.unsigned(size, `selections[${i}], bitmap`);
    return { algorithm, indices: Array.from({ length: MAX_PCRS }, (_, index) => index).filter((index) => ((bitmap >> index) & 1) === 1) };
  });
}

/** Require that a key signed a message: RSASSA-PKCS1-v1_5 with SHA-256, over every byte of it. */
export async function requireTpmSignature(message: Bytes, signature: Bytes, spki: Bytes): Promise<void> {
  if (await rsaHolds("RSASSA-PKCS1-v1_5", spki, "SHA-256", signature, message)) return;
  fail("signature", "tpm-signature-invalid", "", {
    field: "signature",
    expected: `RSASSA-PKCS1-v1_5 with SHA-256 over ${message.length} bytes`,
    got: "a signature that does not verify",
    clause: "azure-cvm.md A04",
  });
}

/** The registers that a quote covers, ascending, with their values; nobody signed any others. */
export type PcrValues = readonly (readonly [index: number, value: Bytes])[];

/** Refuses with `tpm-pcr-bank-unexpected`, `tpm-pcr-count-mismatch` or `tpm-pcr-digest-mismatch`. */
export async function requirePcrValues({ selections, pcrDigest }: TpmQuote, values: readonly Bytes[]): Promise<PcrValues> {
  const clause = "TPM 2.0 Library, part 2, TPMS_QUOTE_INFO; azure-cvm.md A07";
  const [only] = selections;
  const indices = only?.indices ?? [];
  if (selections.length !== 1 || only?.algorithm !== SHA256 || !indices.length) {
    const got = selections.map((each) => `0x${each.algorithm.toString(16).padStart(4, "0")}: ${each.indices.length} registers`);
    fail("binding", "tpm-pcr-bank-unexpected", "", {
      field: "selections",
      expected: "one selection, of bank 0x000b (SHA-256), with at least one register",
      got: got.join("; ") || "none",
      clause,
    });
  }
  if (values.length !== indices.length) {
    fail("binding", "tpm-pcr-count-mismatch", "", {
      field: "pcrs",
      expected: `${indices.length} values, of the registers ${indices.join(", ")}`,
      got: `${values.length}`,
      clause,
    });
  }
  const digest = await sha256(concat(...values));
  if (!equal(digest, pcrDigest)) {
    const facts = { field: "pcrDigest", expected: hex(pcrDigest), got: hex(digest), clause };
    fail("binding", "tpm-pcr-digest-mismatch", "", facts);
  }
  return values.map((value, i) => [indices[i] ?? 0, value] as const);
}
