/**
 * The paravisor's report (HCL report), from NV index 0x01400001 of the virtual TPM (azure-cvm.md 2, check A01). It holds
 * a report of the CPU, and the runtime claims to whose digest that report commits. No signature covers the rest of it,
 * so every other byte has one permitted value.
 */

import { type Bytes, decodeLayout, isZero, layoutSize, latin1, padded } from "../bytes";
import { type Hash, digest } from "../crypto";
import { fail } from "../errors";

const MAX_RUNTIME_BYTES = 64 * 1024;
const MAX_HCL_BYTES = 2 * MAX_RUNTIME_BYTES;
const TD_REPORT_BYTES = 1024;
export const TD_INFO_BYTES = 400;
const DATA_HEAD_BYTES = 20;
const CHECK = "azure.format";
const CLAUSE = "azure-cvm.md 2";

const HCL = {
  signature: 4,
  version: "u4",
  report_size: "u4",
  request_type: "u4",
  status: "u4",
  reserved: -12,
  hardware_report: 1184,
  data_size: "u4",
  data_version: "u4",
  report_type: "u4",
  hash_type: "u4",
  runtime_size: "u4",
} as const;
const HCL_BYTES = layoutSize(HCL);

const HASHES: readonly Hash[] = ["SHA-256", "SHA-384", "SHA-512"];
/** Report types that are verified; others (VBS, TVM) are not. */
export const SNP = 2;
export const TDX = 4;

/** Fields with few permitted values. */
const ONLY: readonly (readonly [field: keyof typeof HCL, offset: number, known: readonly number[]])[] = [
  ["version", 0x004, [1, 2]],
  ["request_type", 0x00c, [2]],
  ["status", 0x010, [0]],
  ["data_version", 0x4c4, [1]],
  ["report_type", 0x4c8, [SNP, TDX]],
  ["hash_type", 0x4cc, [1, 2, 3]],
];

/** A paravisor's report as presented; nothing of it is trusted. */
export interface HclReport {
  readonly version: number;
  readonly reportType: number;
  readonly hash: Hash;
  /** 1,184 bytes: an SNP report, or a TDREPORT (1,024) and zeros. */
  readonly hardwareReport: Bytes;
  /** The runtime claims, JSON text, exactly the bytes that were hashed. */
  readonly runtimeData: Bytes;
}

/** What REPORT_DATA must be: the digest of the runtime claims, left-aligned, 64 bytes. */
export async function runtimeDigest({ hash, runtimeData }: HclReport): Promise<Bytes> {
  return padded(await digest(hash, runtimeData), 64);
}

/** REPORTDATA of a TDREPORT. */
export function tdReportData({ hardwareReport }: HclReport): Bytes {
  return hardwareReport.slice(128, 192);
}

/** TDINFO of a TDREPORT from TDATTRIBUTES to RTMR3. */
export function tdInfo({ hardwareReport }: HclReport): Bytes {
  return hardwareReport.slice(512, 512 + TD_INFO_BYTES);
}

export function platformOf(reportType: number): string {
  return reportType === TDX ? "az-tdx" : "az-snp";
}

function malformed(field: string, offset: number, expected: string, got: string, code = "hcl-malformed"): never {
  const facts = { check: CHECK, field, offset, expected, got, clause: CLAUSE };
  return fail(code === "hcl-unsupported" ? "unsupported" : "malformed", code, "", facts);
}

/** Read a paravisor's report: `hcl-malformed`, `size-wrong`, `reserved-not-zero` or `hcl-unsupported`. */
export function parseHclReport(data: Bytes): HclReport {
  if (data.length < HCL_BYTES || data.length > MAX_HCL_BYTES) {
    malformed("length", 0, `${HCL_BYTES} to ${MAX_HCL_BYTES} bytes`, `${data.length} bytes`);
  }
  const head = decodeLayout(HCL, data.slice(0, HCL_BYTES), "HCL report", CLAUSE);
  if (latin1(head.signature) !== "HCLA") malformed("signature", 0, "48434c41", "other bytes");
  for (const [field, offset, known] of ONLY) {
    const value = head[field as "version"];
    if (!known.includes(value)) malformed(field, offset, known.join(" or "), `${value}`, "hcl-unsupported");
  }
  // Three sizes say the same; one that differs would let two readers hash different bytes.
  const size = head.runtime_size;
  const most = Math.min(MAX_RUNTIME_BYTES, data.length - HCL_BYTES);
  if (!size || size > most) malformed("runtime_size", 0x4d0, `1 to ${most} bytes`, `${size} bytes`);
  if (head.report_size !== HCL_BYTES + size) malformed("report_size", 8, `${HCL_BYTES + size} bytes`, `${head.report_size} bytes`);
  if (head.data_size !== DATA_HEAD_BYTES + size) malformed("data_size", 0x4c0, `${DATA_HEAD_BYTES + size} bytes`, `${head.data_size} bytes`);
  // No signature covers what follows.
  const end = HCL_BYTES + size;
  if (!isZero(data.subarray(end))) malformed("padding", end, "zero", "other bytes", "reserved-not-zero");
  if (head.report_type === TDX && !isZero(head.hardware_report.subarray(TD_REPORT_BYTES))) {
    malformed("area after the TDREPORT", 0x20 + TD_REPORT_BYTES, "zero", "other bytes", "reserved-not-zero");
  }
  return {
    version: head.version,
    reportType: head.report_type,
    hash: HASHES[head.hash_type - 1] ?? "SHA-256",
    hardwareReport: head.hardware_report,
    runtimeData: data.slice(HCL_BYTES, end),
  };
}
