/**
 * The comparison of a report's measurements with reference values.
 *
 * Every reference value of every available RIM is compared, and every comparison is listed. A mismatch that is waived,
 * by NVIDIA's rule about the video decoder or by name, is shown as such and never counts as matched.
 *
 * Spec: specs/nvidia-gpu.md, section 10.
 */

import type { RimContent } from "./rim_document";
import type { ParsedGpuReport } from "./structure";

/** Source RIM of a reference value; the BIOS of a switch counts as `vbios`. */
export type Source = "driver" | "vbios";
export const SOURCES: readonly Source[] = ["driver", "vbios"];

const NVDEC_INDEX = 35;
const NVDEC_DISABLED = 0x55;
const NVDEC_WAIVER = "waived by NVIDIA's rule: NVDEC0 is disabled";

/** One comparison; digests in hex. */
export interface Comparison {
  readonly index: number;
  /** NVIDIA's name of the measurement (`HashedMeasurement_36_GSP`). */
  readonly name: string;
  readonly source: Source;
  /** The alternatives. */
  readonly expected: readonly string[];
  /** Undefined when the report has no such index. */
  readonly got: string | undefined;
  /** Why a mismatch does not refuse; undefined for a match, and for a mismatch that does. */
  readonly reason: string | undefined;
}

/** RIMs whose values count; those of an unsigned RIM are empty. */
export type References = Readonly<Partial<Record<Source, RimContent | undefined>>>;

/** Every comparison, by RIM (driver first) and index. Measurements that no RIM names are not judged. */
export function compare(
  { measurements, opaque }: ParsedGpuReport,
  rims: References,
  waived: ReadonlyMap<number, string>,
): Comparison[] {
  return SOURCES.flatMap((source) =>
    [...(rims[source]?.referenceValues ?? [])]
      .sort(([one], [other]) => one - other)
      .map(([index, expected]) => {
        const got = measurements[index];
        // NOTE: NVIDIA does not compare this index then; here it is compared, and only its mismatch is waived.
        const waiver = index === NVDEC_INDEX && opaque.nvdec0 === NVDEC_DISABLED ? NVDEC_WAIVER : waived.get(index);
        // An index that the report does not have is no measurement that differs: no waiver is about it.
        const reason = got === undefined || expected.includes(got) ? undefined : waiver;
        return { index, name: rims[source]?.names.get(index) ?? "", source, expected, got, reason };
      }),
  );
}

export const isMatch = ({ expected, got }: Comparison): boolean => expected.includes(got!);

/** Differences that are not waived. */
export const mismatches = (results: readonly Comparison[]): Comparison[] =>
  results.filter((result) => !isMatch(result) && !result.reason);

/** The indices that are active in both RIMs, which must be none. */
export function conflicts({ driver, vbios }: References): number[] {
  return [...(driver?.referenceValues.keys() ?? [])]
    .filter((index) => vbios?.referenceValues.has(index))
    .sort((a, b) => a - b);
}
