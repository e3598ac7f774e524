/** The SEV-SNP attestation report: 1,184 bytes, little-endian (AMD 56860; sev-snp.md 2 to 6, check S01). */

import { type Bytes, type Decoded, decodeLayout } from "../bytes";
import { type Facts, type Kind, fail } from "../errors";
import { type Product, productOfCpuid, tcbOf } from "./tcb";

export const REPORT_BYTES = 0x4a0;
/** The signature covers bytes 0x000 to 0x29f. */
export const SIGNED_BYTES = 0x2a0;

const CLAUSE = "AMD 56860, ATTESTATION_REPORT; sev-snp.md 2";
const CHECK = "snp.format";

const HEAD = {
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
  reserved_0x4c: -4,
  report_data: 64,
  measurement: 48,
  host_data: 32,
  id_key_digest: 48,
  author_key_digest: 48,
  report_id: 32,
  report_id_ma: 32,
  reported_tcb: 8,
} as const;
const NO_CPUID = { reserved_0x188: -24 } as const;
const CPUID = { cpuid_fam_id: "u1", cpuid_mod_id: "u1", cpuid_step: "u1", reserved_0x18b: -21 } as const;
const MIDDLE = {
  chip_id: 64,
  committed_tcb: 8,
  current_build: "u1",
  current_minor: "u1",
  current_major: "u1",
  reserved_0x1eb: -1,
  committed_build: "u1",
  committed_minor: "u1",
  committed_major: "u1",
  reserved_0x1ef: -1,
  launch_tcb: 8,
} as const;
const NO_MITIGATION = { reserved_0x1f8: -168 } as const;
const MITIGATION = { launch_mit_vector: "u8", current_mit_vector: "u8", reserved_0x208: -152 } as const;
const TAIL = { signature_r: 72, signature_s: 72, reserved_0x330: -368 } as const;

/** Version 2 has no CPUID bytes, 5 has mitigation vectors; 4 has the layout of 3. */
const LAYOUTS: Readonly<Record<number, Readonly<Record<string, "u1" | "u4" | "u8" | number>>>> = {
  2: { ...HEAD, ...NO_CPUID, ...MIDDLE, ...NO_MITIGATION, ...TAIL },
  3: { ...HEAD, ...CPUID, ...MIDDLE, ...NO_MITIGATION, ...TAIL },
  4: { ...HEAD, ...CPUID, ...MIDDLE, ...NO_MITIGATION, ...TAIL },
  5: { ...HEAD, ...CPUID, ...MIDDLE, ...MITIGATION, ...TAIL },
};

type Fields = Decoded<typeof HEAD & typeof MIDDLE & typeof TAIL> &
  Partial<Decoded<typeof CPUID> & Decoded<typeof MITIGATION>>;

/** A report as presented; fields that its version does not have are undefined. */
export interface SnpReport extends Fields {
  /** As received; signatures are checked over these bytes, never over a re-encoding. */
  readonly raw: Bytes;
  /** From CPUID in version 3 and later; version 2 does not say. */
  readonly product: Product | undefined;
}

/** Named bits of POLICY. Bits 15:0 are the ABI version, bit 17 must be one, 63:26 must be zero. */
export const POLICY_BITS: Readonly<Record<string, number>> = {
  smt: 16,
  migrate_ma: 18,
  debug: 19,
  single_socket: 20,
  cxl_allow: 21,
  mem_aes_256_xts: 22,
  rapl_dis: 23,
  ciphertext_hiding_dram: 24,
  page_swap_disable: 25,
};

/** Named bits of PLATFORM_INFO. Others are kept and shown: real Turin machines set bit 6. */
export const PLATFORM_BITS: Readonly<Record<string, number>> = {
  smt_en: 0,
  tsme_en: 1,
  ecc_en: 2,
  rapl_dis: 3,
  ciphertext_hiding_dram_en: 4,
  alias_check_complete: 5,
  tio_en: 7,
};

function refuse(kind: Kind, code: string, field: string, offset: number | undefined, expected: string, got: string): never {
  const facts: Facts = { check: CHECK, field, offset, expected, got, clause: CLAUSE };
  return fail(kind, code, "", facts);
}

/** Read a report: `size-wrong`, `reserved-not-zero`, `snp-field-malformed`, or unsupported for what is not known. */
export function parseReport(raw: Bytes): SnpReport {
  // (1) Length and version: what comes after is read by the table of that version.
  if (raw.length !== REPORT_BYTES) {
    refuse("malformed", "size-wrong", "SEV-SNP report", undefined, `${REPORT_BYTES} bytes`, `${raw.length} bytes`);
  }
  const version = new DataView(raw.buffer, raw.byteOffset).getUint32(0, true);
  const layout = LAYOUTS[version];
  if (!layout) refuse("unsupported", "snp-version-unsupported", "VERSION", 0, "2, 3, 4 or 5", `${version}`);
  // (2) Reserved spans, and the values by the table.
  const fields = decodeLayout(layout ?? {}, raw, "ATTESTATION_REPORT", CLAUSE) as unknown as Fields;
  const { cpuid_fam_id: family, cpuid_mod_id: model, signature_algo, policy, key_info } = fields;
  const product = family === undefined || model === undefined ? undefined : productOfCpuid(family, model);
  // (3) What has only one meaning, or none that we know.
  if (signature_algo !== 1) {
    refuse("unsupported", "snp-signature-algorithm-unsupported", "SIGNATURE_ALGO", 0x34, "1 (ECDSA P-384)", `${signature_algo}`);
  }
  if (policy >> 26n || !((policy >> 17n) & 1n)) {
    refuse("malformed", "snp-field-malformed", "POLICY", 0x08, "bit 17 one and bits 63:26 zero", `0x${policy.toString(16)}`);
  }
  if (key_info >>> 5) {
    refuse("malformed", "snp-field-malformed", "KEY_INFO", 0x48, "bits 31:5 zero", `0x${key_info.toString(16)}`);
  }
  // (4) TCBs by the layout of the product line; version 2 waits for the certificate to name it.
  if (product) {
    for (const name of ["current_tcb", "reported_tcb", "committed_tcb", "launch_tcb"] as const) {
      tcbOf(fields[name], product, name.toUpperCase());
    }
  }
  return { ...fields, raw, product };
}
