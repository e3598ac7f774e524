/**
 * The public function: options are required to be usable, files are recognised, and the outcome is written as a result.
 */

import type { TrustAnchors } from "./anchors";
import { type Bytes, NO_BYTES, copyOf, latin1, rfc3339, unhex, utf8 } from "./bytes";
import { type Check as MadeCheck, UNCHECKED_NAMES, check } from "./checks";
import { type Expected, REPORT_DATA_BYTES } from "./composite";
import { isVisible } from "./encoding";
import { type Item, MEDIA, itemOf, requireSound } from "./envelope";
import { AttestError, refusalOf } from "./errors";
import type { Tolerances } from "./evidence";
import { prefetch } from "./formats";
import { merged } from "./pool";
import type { NamedBytes } from "./recognised";
import { readEndorsements, readEvidence } from "./recognition";
import type { NamedValues } from "./unknown_values";
import { verify } from "./verify";
import { warningsOf } from "./warnings";

import type {
  BytesOrHex,
  CheckResult,
  FileBytes,
  Outcome,
  Result,
  ToleranceReasons,
  UncheckedReason,
  VerifyEvidence,
  VerifyOptions,
} from "./api";

const TIERS = { pass: "affirming", warning: "warning", fail: "contraindicated", "not evaluated": "none" } as const;

/** Verify all evidence of one Attester: see `VerifyEvidence`. */
export const verifyEvidence: VerifyEvidence = async (input, options) => {
  const at = momentOf(options.at);
  const unchecked = uncheckedOf(options.unchecked ?? []);
  const tolerances = {
    gpus: toleranceOf(options.tolerances?.gpus),
    switches: toleranceOf(options.tolerances?.switches),
    spls: namedValues(options.tolerances?.spls),
  };
  const expected = expectedOf(options);
  const anchors = anchorsOf(options.anchors);
  const files = inputFiles(input);
  const endorsements = filesOf(options.endorsements ?? []);
  const log = options.eventLog && logItem(copyOf(options.eventLog));
  const head = { schema: "attest.result/1", command: "verify", at: rfc3339(at), unchecked } as const;
  const found = await refusalOf(async () => {
    const { evidence, presented } = await readEvidence(files);
    prefetch(evidence);
    const pool = merged(presented, await readEndorsements(endorsements, at));
    return verify(
      log ? requireSound([...evidence, log]) : evidence,
      { endorsements: pool, anchors, at, unchecked, tolerances },
      expected,
    );
  });
  if (found instanceof AttestError) return { ...head, ...refused(found) };
  const warnings = warningsOf(found);
  return { ...head, outcome: "verified", error: null, ...found, warnings, checks: told(found.checks) };
};

/** A log in JSON is dstack's; one in the TCG's binary form begins with a small number. */
function logItem(log: Bytes): Item {
  const isJson = /^[\t-\r ]*[["]/.test(latin1(log));
  return itemOf("eventlog", isJson ? MEDIA.dstackLog : MEDIA.eventLog, log);
}

function told(checks: readonly MadeCheck[]): CheckResult[] {
  return checks.map((each) => ({ ...each, tier: TIERS[each.outcome] }));
}

function refused(
  error: AttestError,
): Pick<Result, "outcome" | "simulated" | "freshness" | "error" | "items" | "checks"> {
  const { code, kind, message, facts } = error;
  // A refusal without a procedure stands for one check.
  const only = check(
    facts.check ?? (kind === "binding" ? "freshness" : "evidence.format"),
    "fail",
    facts.expected,
    facts.got ?? message,
    facts.clause ?? "",
  );
  const checks = error.checks.length ? error.checks : [only];
  return {
    outcome: "refused",
    simulated: code === "simulated-root-refused",
    freshness: freshnessOf(checks),
    error: { code, message, ...facts },
    items: [],
    checks: told(checks),
  };
}

/** Freshness of refused evidence, as far as its checks show it. */
function freshnessOf(checks: readonly MadeCheck[]): Result["freshness"] {
  const has = (outcome: Outcome, ...ids: readonly string[]): boolean =>
    checks.some((each) => each.outcome === outcome && ids.includes(each.id));
  if (has("fail", "freshness", "binding.report_data")) return "mismatched";
  return has("pass", "freshness") ? "matched" : "not evaluated";
}

// -- what the caller gives

/** Require options that some evidence could meet. */
function usable(holds: unknown, problem: string): asserts holds {
  if (!holds) throw new TypeError(problem);
}

/** A moment that RFC 3339 can write: years 1 to 9999. */
function momentOf(at: Date | number): number {
  // The caller's types may lie.
  const given: unknown = at;
  const stated: unknown = given instanceof Date ? given.getTime() : given;
  const ms = typeof stated === "number" ? stated : Number.NaN;
  usable(ms >= -62_135_596_800_000 && ms < 253_402_300_800_000, "at: a Date or milliseconds since 1970");
  return Math.trunc(ms);
}

function uncheckedOf(unchecked: readonly UncheckedReason[]): UncheckedReason[] {
  return unchecked.map(({ check: name, reason }) => {
    usable(UNCHECKED_NAMES.includes(name) && isVisible(reason), `unchecked: ${name} and a reason`);
    return { check: name, reason };
  });
}

function namedValues(values: Readonly<Record<string, string>> = {}): NamedValues {
  usable(Object.values(values).every(isVisible), "a tolerance needs a reason");
  return new Map(Object.entries(values));
}

function toleranceOf({ waivedMeasurements = {}, acceptedOpaque, heldRimSigners }: ToleranceReasons = {}): Tolerances {
  const waived = Object.entries(waivedMeasurements);
  usable(
    waived.every(([index]) => /^(?:\d|[1-5]\d|6[0-3])$/.test(index)),
    "waivedMeasurements: 0 to 63",
  );
  usable([...Object.values(waivedMeasurements), heldRimSigners ?? "-"].every(isVisible), "a tolerance needs a reason");
  return {
    waived: new Map(waived.map(([index, reason]) => [Number(index), reason])),
    opaque: namedValues(acceptedOpaque),
    heldRimSigners,
  };
}

function anchorsOf(anchors: VerifyOptions["anchors"] = "vendors"): TrustAnchors {
  usable(["vendors", "simulation"].includes(anchors), "anchors: vendors or simulation");
  return anchors;
}

function sized(value: BytesOrHex, name: string, least: number, most: number): Bytes {
  const isHex = typeof value === "string" && /^(?:[0-9a-fA-F]{2})*$/.test(value);
  const bytes = isHex ? unhex(value) : copyOf(value instanceof Uint8Array ? value : NO_BYTES);
  usable(bytes.length >= least && bytes.length <= most, `${name}: ${least} to ${most} bytes`);
  return bytes;
}

function expectedOf({ nonce, reportData, binding }: VerifyOptions): Expected {
  usable(!binding || (nonce === undefined && reportData === undefined), "a binding, or a nonce and report data");
  return {
    nonce: nonce === undefined ? nonce : sized(nonce, "nonce", 1, REPORT_DATA_BYTES),
    reportData:
      reportData === undefined ? reportData : sized(reportData, "reportData", REPORT_DATA_BYTES, REPORT_DATA_BYTES),
    binding: binding && {
      ...binding,
      nonce: sized(binding.nonce, "nonce", 32, 32),
      key: binding.key === undefined ? binding.key : sized(binding.key, "key", 1, 4096),
    },
  };
}

function filesOf(files: readonly (Uint8Array | FileBytes)[]): NamedBytes[] {
  return files.map((file, i) => {
    const { name, bytes } = file instanceof Uint8Array ? { name: `file ${i}`, bytes: file } : file;
    usable(bytes instanceof Uint8Array, `${name}: bytes`);
    return { name, bytes: copyOf(bytes) };
  });
}

/** The JSON of a value; empty for one that JSON has no form for. */
function jsonText(value: unknown): string {
  const text = JSON.stringify(value) as string | undefined;
  return text ?? "";
}

/** Bytes, several files, or else JSON that was parsed. */
function inputFiles(input: Uint8Array | object): NamedBytes[] {
  const files: readonly unknown[] = Array.isArray(input) && input.length ? input : [input];
  const areFiles = files.every(
    (file) => file instanceof Uint8Array || (file as FileBytes | null)?.bytes instanceof Uint8Array,
  );
  return filesOf(areFiles ? (files as FileBytes[]) : [utf8(jsonText(input))]);
}
