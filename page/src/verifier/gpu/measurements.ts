/**
 * The comparison of a report's measurements with reference values.
 *
 * Every reference value of every RIM at hand is compared, and every comparison is listed. A mismatch that is waived,
 * by NVIDIA's rule about the video decoder or by name, is shown as such and never counts as matched.
 *
 * Spec: specs/nvidia-gpu.md, section 10.
 */

import type { ParsedGpuReport } from "./structure";
import type { ReferenceValues } from "./rim_document";

/** Which RIM a reference value comes from; the BIOS of a switch counts as `vbios`. */
export type Source = "driver" | "vbios";

const NVDEC_INDEX = 35;
const NVDEC_DISABLED = 0x55;
const NVDEC_WAIVER = "waived by NVIDIA's rule: NVDEC0 is disabled";

/** One comparison; digests in hex. */
export interface Result {
  readonly index: number;
  readonly source: Source;
  readonly matched: boolean;
  /** Why a mismatch does not refuse; undefined for a match, and for a mismatch that does. */
  readonly waived: string | undefined;
  /** The alternatives. */
  readonly expected: readonly string[];
  /** Undefined when the report has no such index. */
  readonly got: string | undefined;
}

/** What speaks for a part of the device; its values are empty unless somebody signed them. */
export interface Reference {
  readonly referenceValues: ReferenceValues;
}

/** Reasons by index for mismatches that are only shown. */
export type Waivers = ReadonlyMap<number, string>;

/** Every comparison, by RIM (driver first) and index. Measurements that no RIM names are not judged. */
export function compare(
  report: ParsedGpuReport,
  rims: Readonly<Partial<Record<Source, Reference | undefined>>>,
  waived: Waivers,
): Result[] {
  // NOTE: NVIDIA does not compare this index then; here it is compared, and only its mismatch is waived.
  const nvdecOff = report.opaque.nvdec0 === NVDEC_DISABLED;
  const reasons = nvdecOff ? new Map([...waived, [NVDEC_INDEX, NVDEC_WAIVER]]) : waived;
  return [...compared(report, "driver", rims.driver, reasons), ...compared(report, "vbios", rims.vbios, reasons)];
}

function compared(report: ParsedGpuReport, source: Source, rim: Reference | undefined, reasons: Waivers): Result[] {
  const values = [...(rim?.referenceValues ?? [])].sort(([one], [other]) => one - other);
  return values.map(([index, expected]) => {
    const got = report.measurements[index];
    const matched = got !== undefined && expected.includes(got);
    // An index that the report does not have is no measurement that differs: no waiver is about it.
    const waived = matched || got === undefined ? undefined : reasons.get(index);
    return { index, source, matched, waived, expected, got };
  });
}

/** What differs and is not waived. */
export function mismatches(results: readonly Result[]): Result[] {
  return results.filter((result) => !result.matched && result.waived === undefined);
}

/** The indices that are active in both RIMs, which must be none. */
export function conflicts(driver: Reference | undefined, vbios: Reference | undefined): number[] {
  const other = vbios?.referenceValues ?? new Map<number, unknown>();
  return [...(driver?.referenceValues.keys() ?? [])].filter((index) => other.has(index)).sort((a, b) => a - b);
}
