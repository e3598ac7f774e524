/**
 * The paravisor's report (HCL report), from NV index 0x01400001 of the virtual TPM (azure-cvm.md 2, check A01). It
 * holds a report of the CPU, and the runtime claims to whose digest that report commits. No signature covers the rest
 * of it, so every other byte has one permitted value.
 */

import { type Bytes, isZero, latin1, padded } from "../bytes";
import { decodeLayout } from "../reader";
import { type Hash, digest } from "../crypto";
import { type Kind, need } from "../errors";
import type { Shown } from "../shown";

/**
 * Bytes: the most of runtime claims; what stands before them, all of it and what is counted with them; a TDREPORT and
 * its TDINFO.
 */
const SIZE = {
  runtime: 64 * 1024,
  head: 1236,
  dataHead: 20,
  tdReport: 1024,
  tdInfo: 400,
} as const;

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
const TYPE = {
  snp: 2,
  tdx: 4,
} as const;

/** Fields with few permitted values. */
const ONLY = {
  version: [1, 2],
  request_type: [2],
  status: [0],
  data_version: [1],
  report_type: [TYPE.snp, TYPE.tdx],
  hash_type: [1, 2, 3],
} as const;

/** A paravisor's report as presented; nothing of it is trusted. */
export interface HclReport {
  readonly version: number;
  /** Kind of the report in it. */
  readonly tee: "snp" | "tdx";
  /** 1,184 bytes: an SNP report, or a TDREPORT (1,024) and zeros. */
  readonly hardwareReport: Bytes;
  /** The runtime claims, JSON text, exactly the bytes that were hashed. */
  readonly runtimeData: Bytes;
  /** Required REPORT_DATA: the digest of the runtime claims, left-aligned, 64 bytes. */
  runtimeDigest(): Promise<Bytes>;
}

/** REPORTDATA of a TDREPORT, and its TDINFO from TDATTRIBUTES to RTMR3. */
export const tdReportData = ({ hardwareReport }: HclReport): Bytes => hardwareReport.slice(128, 192);
export const tdInfo = (data: Bytes, begin = 512): Bytes => data.slice(begin, begin + SIZE.tdInfo);

/** Read a paravisor's report: `hcl-malformed`, `size-wrong`, `reserved-not-zero` or `hcl-unsupported`. */
export function parseHclReport(data: Bytes): HclReport {
  const demand = (
    is: unknown,
    field: string,
    expected: Shown,
    got: Shown,
    code = "hcl-malformed",
    kind: Kind = "malformed",
  ): void => need(is, kind, code, expected, got, { check: "azure.format", field });
  const room = data.length - SIZE.head;
  demand(room >= 0 && data.length <= 2 * SIZE.runtime, "length", SIZE.head, data.length);
  const head = decodeLayout(HCL, data.slice(0, SIZE.head), "HCL report", "");
  const signature = latin1(head.signature);
  demand(signature === "HCLA", "signature", "HCLA", signature);
  for (const [field, known] of Object.entries(ONLY) as [keyof typeof ONLY, readonly number[]][]) {
    demand(known.includes(head[field]), field, known, head[field], "hcl-unsupported", "unsupported");
  }
  // Three sizes say the same; one that differs would let two readers hash different bytes.
  const { version, runtime_size, report_size, data_size, report_type, hash_type, hardware_report } = head;
  demand(runtime_size && runtime_size <= Math.min(SIZE.runtime, room), "runtime_size", room, runtime_size);
  demand(report_size - SIZE.head === runtime_size, "report_size", SIZE.head + runtime_size, report_size);
  demand(data_size - SIZE.dataHead === runtime_size, "data_size", SIZE.dataHead + runtime_size, data_size);
  // No signature covers what follows.
  const tee = report_type === TYPE.tdx ? "tdx" : "snp";
  const end = SIZE.head + runtime_size;
  const isPadded =
    isZero(data.slice(end)) && (report_type === TYPE.snp || isZero(hardware_report.slice(SIZE.tdReport)));
  demand(isPadded, "padding", 0, "other bytes", "reserved-not-zero");
  const runtimeData = data.slice(SIZE.head, end);
  // 1, 2 and 3 are SHA-256, SHA-384 and SHA-512.
  const runtimeDigest = async (): Promise<Bytes> =>
    padded(await digest(`SHA-${[256, 384, 512][hash_type - 1]}` as Hash, runtimeData), 64);
  return { version, tee, hardwareReport: hardware_report, runtimeData, runtimeDigest };
}
