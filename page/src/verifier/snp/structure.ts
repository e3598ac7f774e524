/** The SEV-SNP attestation report: 1,184 bytes, little-endian (AMD 56860; sev-snp.md 2 to 6, check S01). */

import { type Bytes, hex } from "../bytes";
import { type Decoded, decodeLayout } from "../reader";
import { type Kind, need } from "../errors";
import type { Shown } from "../shown";
import { type Product, tcbsOf } from "./tcb";

export const REPORT_BYTES = 0x4a0;

const CPUID = { cpuid: 3, reserved_cpuid: -21 } as const;
const MITIGATION = { launch_mit_vector: "u8", current_mit_vector: "u8", reserved_mit: -152 } as const;

/** Version 2 has no CPUID bytes, 5 has mitigation vectors; 4 has the layout of 3. */
const layoutOf = (version: number) =>
  ({
    version: "u4",
    guest_svn: "u4",
    policy: "u8",
    family_id: 16,
    image_id: 16,
    vmpl: "u4",
    signature_algo: "u4",
    current_tcb: 8,
    platform_info: "u8",
    key_info: "u4",
    reserved: -4,
    report_data: 64,
    measurement: 48,
    host_data: 32,
    id_key_digest: 48,
    author_key_digest: 48,
    report_id: 32,
    report_id_ma: 32,
    reported_tcb: 8,
    ...(version > 2 ? CPUID : { reserved_cpuid: -24 }),
    chip_id: 64,
    committed_tcb: 8,
    current_version: 3,
    reserved_current: -1,
    committed_version: 3,
    reserved_committed: -1,
    launch_tcb: 8,
    ...(version > 4 ? MITIGATION : { reserved_mit: -168 }),
    signature_r: 72,
    signature_s: 72,
    reserved_end: -368,
  }) as const;

type Fields = Decoded<Omit<ReturnType<typeof layoutOf>, keyof typeof CPUID | keyof typeof MITIGATION>> &
  Partial<Decoded<typeof CPUID> & Decoded<typeof MITIGATION>>;

/** A report as presented; fields that its version does not have are undefined. */
export interface SnpReport extends Fields {
  /** As received; signatures are checked over these bytes, never over a re-encoding. */
  readonly raw: Bytes;
  /** From CPUID in version 3 and later; version 2 does not say. */
  readonly product: Product | undefined;
}

/** Combined CPUID family and model of each product line; Bergamo and Siena have Genoa's chain and layout. */
const MODELS: readonly (readonly [model: RegExp, product: Product])[] = [
  [/^190/, "Milan"],
  [/^19[1a]/, "Genoa"],
  [/^1a(0|1[01])/, "Turin"],
];

/** Read a report: `size-wrong`, `reserved-not-zero`, `snp-field-malformed`, or unsupported for what is not known. */
export function parseReport(raw: Bytes): SnpReport {
  const demand = (is: boolean, kind: Kind, code: string, field: string, expected: Shown, got: Shown): void =>
    need(is, kind, code, expected, got, { check: "snp.format", field });
  // (1) Length and version: what comes after is read by the table of that version.
  demand(raw.length === REPORT_BYTES, "malformed", "size-wrong", "SEV-SNP report", REPORT_BYTES, raw.length);
  const version = raw.slice(0, 4);
  demand(/^0[2-5]000000/.test(hex(version)), "unsupported", "snp-version-unsupported", "VERSION", "2 to 5", version);
  // (2) Reserved spans, and the values by the table.
  const fields = decodeLayout(layoutOf(version[0]!), raw, "ATTESTATION_REPORT", "") as unknown as Fields;
  const { cpuid, signature_algo, policy, key_info } = fields;
  // A pair of family and model outside the table is not guessed.
  const product = cpuid && MODELS.find(([model]) => model.test(hex(cpuid)))?.[1];
  demand(
    product !== undefined || !cpuid,
    "unsupported",
    "snp-product-unknown",
    "CPUID_FAM_ID",
    "Milan, Genoa, Turin",
    cpuid,
  );
  // (3) What has only one meaning, or none that we know.
  demand(
    signature_algo === 1,
    "unsupported",
    "snp-signature-algorithm-unsupported",
    "SIGNATURE_ALGO",
    1,
    signature_algo,
  );
  demand(
    ((policy >> 17n) & ~0x1fen) === 1n,
    "malformed",
    "snp-field-malformed",
    "POLICY",
    "of bits 17 and 63:26 the first",
    policy,
  );
  demand(key_info < 32, "malformed", "snp-field-malformed", "KEY_INFO", "bits 4:0", key_info);
  // (4) TCBs by the layout of the product line; version 2 waits for the certificate to name it.
  if (product) tcbsOf(fields, product, "malformed", "reserved-not-zero");
  return { ...fields, raw, product };
}
