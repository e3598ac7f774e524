/**
 * The paravisor's report (HCL report), from NV index 0x01400001 of the virtual TPM (azure-cvm.md 2, check A01). It holds
 * a report of the CPU, and the runtime claims to whose digest that report commits. No signature covers the rest of it,
 * so every other byte has one permitted value.
 */

import { type Bytes, decodeLayout, isZero, latin1, padded } from "../bytes";
import { type Hash, digest } from "../crypto";
import { type Kind, type Shown, need } from "../errors";

const MAX_RUNTIME_BYTES = 64 * 1024;
const [HCL_BYTES, DATA_HEAD_BYTES, TD_REPORT_BYTES] = [1236, 20, 1024];
const TD_INFO_BYTES = 400;

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

/** Report types that are verified; others (VBS, TVM) are not. */
const [SNP, TDX] = [2, 4];

/** Fields with few permitted values. */
const ONLY = {
  version: [1, 2],
  request_type: [2],
  status: [0],
  data_version: [1],
  report_type: [SNP, TDX],
  hash_type: [1, 2, 3],
} as const;

/** A paravisor's report as presented; nothing of it is trusted. */
export interface HclReport {
  readonly version: number;
  readonly isTdx: boolean;
  /** 1,184 bytes: an SNP report, or a TDREPORT (1,024) and zeros. */
  readonly hardwareReport: Bytes;
  /** The runtime claims, JSON text, exactly the bytes that were hashed. */
  readonly runtimeData: Bytes;
  /** What REPORT_DATA must be: the digest of the runtime claims, left-aligned, 64 bytes. */
  runtimeDigest(): Promise<Bytes>;
}

/** REPORTDATA of a TDREPORT, and its TDINFO from TDATTRIBUTES to RTMR3. */
export const tdReportData = ({ hardwareReport }: HclReport): Bytes => hardwareReport.slice(128, 192);
export const tdInfo = (data: Bytes, begin = 512): Bytes => data.slice(begin, begin + TD_INFO_BYTES);

/** Read a paravisor's report: `hcl-malformed`, `size-wrong`, `reserved-not-zero` or `hcl-unsupported`. */
export function parseHclReport(data: Bytes): HclReport {
  const demand = (is: unknown, field: string, expected: Shown, got: Shown, code = "hcl-malformed", kind: Kind = "malformed"): void =>
    need(is, kind, code, expected, got, { check: "azure.format", field });
  const room = data.length - HCL_BYTES;
  demand(room >= 0 && data.length <= 2 * MAX_RUNTIME_BYTES, "length", HCL_BYTES, data.length);
  const head = decodeLayout(HCL, data.slice(0, HCL_BYTES), "HCL report", "");
  const signature = latin1(head.signature);
  demand(signature === "HCLA", "signature", "HCLA", signature);
  for (const [field, known] of Object.entries(ONLY) as [keyof typeof ONLY, readonly number[]][]) {
    demand(known.includes(head[field]), field, known, head[field], "hcl-unsupported", "unsupported");
  }
  // Three sizes say the same; one that differs would let two readers hash different bytes.
  const { runtime_size, report_size, data_size, hash_type, hardware_report } = head;
  demand(runtime_size && runtime_size <= Math.min(MAX_RUNTIME_BYTES, room), "runtime_size", room, runtime_size);
  demand(report_size === HCL_BYTES + runtime_size, "report_size", HCL_BYTES + runtime_size, report_size);
  demand(data_size === DATA_HEAD_BYTES + runtime_size, "data_size", DATA_HEAD_BYTES + runtime_size, data_size);
  // No signature covers what follows.
  const isTdx = head.report_type === TDX;
  const behind = [data.slice(HCL_BYTES + runtime_size), isTdx ? hardware_report.slice(TD_REPORT_BYTES) : new Uint8Array()];
  for (const bytes of behind) demand(isZero(bytes), "padding", 0, "other bytes", "reserved-not-zero");
  const runtimeData = data.slice(HCL_BYTES, HCL_BYTES + runtime_size);
  const hash = (["SHA-256", "SHA-384", "SHA-512"] as const)[hash_type - 1] as Hash;
  return {
    version: head.version,
    isTdx,
    hardwareReport: hardware_report,
    runtimeData,
    runtimeDigest: async () => padded(await digest(hash, runtimeData), 64),
  };
}
