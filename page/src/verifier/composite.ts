/**
 * What holds the items of one Attester together: the binding, the challenge, and the devices that it names. A CPU
 * report commits to the binding, the binding lists every other device, and each of those was asked under a nonce that
 * only this challenge gives. (DESIGN 7; must-check.md 1, 2 and 11.)
 */

import { type Binding, EXTRA_DATA_BYTES, type ExpectedBinding, bindingGpuNonce, bindingReportData, requireBinding } from "./binding";
import { type Bytes, equal, hex, padded } from "./bytes";
import { type Check, type Outcome, type Told, check } from "./checks";
import { type Item, itemDigest } from "./envelope";
import { AttestError, fail } from "./errors";

export const DEVICE_NONCE_BYTES = 32;
export const REPORT_DATA_BYTES = 64;

export type Freshness = "matched" | "mismatched" | "not evaluated";

/** What makes the evidence an answer to this question: a nonce, report data, or a whole binding. */
export interface Expected {
  readonly nonce?: Bytes | undefined;
  readonly reportData?: Bytes | undefined;
  readonly binding?: ExpectedBinding | undefined;
}

/** What was presented, as far as it concerns the whole. */
export interface Presented {
  /** The CPU report's 64 bytes; undefined without CPU evidence. */
  readonly reportData: Bytes | undefined;
  /** The field of its own in which the CPU's evidence carries the nonce (extraData of a TPM's quote). */
  readonly nonce: Bytes | undefined;
  readonly binding: Binding | undefined;
  /** Every item that a binding must list: all devices but the CPU, known or not. */
  readonly others: readonly Item[];
  readonly deviceNonces: readonly (readonly [name: string, nonce: Bytes])[];
}

export interface Composite {
  readonly checks: readonly Check[];
  readonly failures: readonly AttestError[];
  readonly freshness: Freshness;
}

type Judge = (presented: Presented, expected: Expected) => Promise<Told | undefined> | Told | undefined;

const JUDGES: readonly (readonly [id: string, clause: string, judge: Judge])[] = [
  ["binding.report_data", "DESIGN 7, REPORT_DATA", requireCommitted],
  ["binding.extra_data", "DESIGN 7, Azure; azure-cvm.md 8", requireQuoted],
  ["binding.devices", "DESIGN 7, devices", requireDevices],
  ["binding.device_nonce", "DESIGN 7, GPU nonce; must-check.md 11", requireDeviceNonces],
  ["freshness", "RFC 9334, section 10; must-check.md 1", requireFresh],
];

/** Compare the binding with REPORT_DATA and with the devices, and all of it with what was expected. */
export async function judgeComposite(presented: Presented, expected: Expected): Promise<Composite> {
  requireMeetable(presented, expected);
  const checks: Check[] = [];
  const failures: AttestError[] = [];
  for (const [id, clause, judge] of JUDGES) {
    try {
      const told = await judge(presented, expected);
      if (told) checks.push(check(id, told[2] ?? "pass", told[0], told[1], clause));
    } catch (error) {
      if (!(error instanceof AttestError)) throw error;
      error.facts.check = id;
      failures.push(error);
      checks.push(check(id, "fail", error.facts.expected ?? "", error.facts.got ?? "", clause));
    }
  }
  const last: Outcome | undefined = checks.find(({ id }) => id === "freshness")?.outcome;
  return { checks, failures, freshness: last === "pass" ? "matched" : last === "fail" ? "mismatched" : "not evaluated" };
}

/** Refuse evidence that cannot answer what was asked: what the Attester sent decides, and never throws anything else. */
function requireMeetable({ reportData, binding, deviceNonces }: Presented, expected: Expected): void {
  if (expected.reportData && !reportData) {
    fail("binding", "option-not-applicable", "", { field: "reportData", expected: "evidence with a CPU report", got: "none" });
  }
  const size = expected.nonce?.length ?? DEVICE_NONCE_BYTES;
  if (deviceNonces.length && !binding && size !== DEVICE_NONCE_BYTES) {
    fail("binding", "nonce-length", "", { field: "nonce", expected: `${DEVICE_NONCE_BYTES} bytes`, got: `${size} bytes` });
  }
}

/** Require that the CPU's report commits to the binding that came with it. */
async function requireCommitted({ binding, reportData }: Presented): Promise<Told | undefined> {
  if (!binding) return undefined;
  const wanted = await bindingReportData(binding);
  if (!reportData) {
    return fail("binding", "binding-uncommitted", "", {
      field: "binding",
      expected: `a CPU report with REPORT_DATA ${hex(wanted)}`,
      got: "no CPU evidence",
    });
  }
  return compare("REPORT_DATA", "binding-report-data-mismatch", wanted, reportData);
}

/** An old quote of the same TPM beside fresh user data would show registers of a time long past. */
async function requireQuoted({ binding, nonce }: Presented): Promise<Told | undefined> {
  if (!binding || !nonce) return undefined;
  const wanted = (await bindingReportData(binding)).slice(0, EXTRA_DATA_BYTES);
  return compare("extraData", "binding-extra-data-mismatch", wanted, nonce);
}

/** Order of code points, which is Python's; UTF-16 units order those above the basic plane otherwise. */
function byName(a: Item, b: Item): number {
  const [left, right] = [[...a.name], [...b.name]];
  const at = left.findIndex((character, i) => character !== right[i]);
  return at < 0 ? left.length - right.length : (left[at]?.codePointAt(0) ?? 0) - (right[at]?.codePointAt(0) ?? -1);
}

/** Require that the binding lists every other device, known or not, in the order of names. */
async function requireDevices({ binding, reportData, others }: Presented): Promise<Told | undefined> {
  if (!binding) {
    if (!reportData || !others.length) return undefined;
    return [`a binding that lists ${others.length} devices`, "no binding: nothing ties them", "not evaluated"];
  }
  const present = await Promise.all([...others].sort(byName).map(itemDigest));
  const tell = (digests: readonly Bytes[]): string => `${digests.length} devices [${digests.map((each) => `'${hex(each)}'`).join(", ")}]`;
  const [expected, got] = [tell(binding.devices), tell(present)];
  if (expected !== got) {
    const problem = "the devices in the evidence are not those that the binding lists";
    fail("binding", "binding-devices-mismatch", problem, { field: "binding.devices", expected, got });
  }
  return [expected, got];
}

/** Require that every device was asked under the nonce which this challenge gives, and no other. */
async function requireDeviceNonces({ binding, deviceNonces }: Presented): Promise<Told | undefined> {
  if (!binding || !deviceNonces.length) return undefined;
  const wanted = await bindingGpuNonce(binding);
  for (const [name, nonce] of deviceNonces) compare(`${name}: nonce`, "device-nonce-mismatch", wanted, nonce);
  return [hex(wanted), `${deviceNonces.length} devices carry it`];
}

/** Require an answer to this very question: by the binding, or by each report itself when there is none. */
function requireFresh(presented: Presented, expected: Expected): Told | undefined {
  const { binding, reportData } = presented;
  if (expected.binding) {
    if (!binding) {
      const facts = { field: "binding", expected: `a binding for ${expected.binding.context}`, got: "none" };
      return fail("binding", "binding-missing", "", facts);
    }
    requireBinding(expected.binding, binding);
    return [hex(expected.binding.nonce), hex(binding.nonce)];
  }
  if (!expected.nonce && !expected.reportData) return ["a nonce or report data to compare with", "none was given", "not evaluated"];
  const told = expected.reportData && reportData ? requireReportData(presented, reportData, expected.reportData) : undefined;
  if (!expected.nonce) return told;
  if (binding) return compare("the nonce", "nonce-mismatch", expected.nonce, binding.nonce);
  return requireNonce(presented, expected.nonce) ?? told;
}

/** Require the report data; of devices, or of a TPM, which carry a nonce of their own, it tells nothing. */
function requireReportData({ binding, deviceNonces, nonce }: Presented, found: Bytes, wanted: Bytes): Told {
  const told = compare("REPORT_DATA", "report-data-mismatch", wanted, found);
  if (!binding && deviceNonces.length) return ["a nonce for the devices too", "report data, which only the CPU carries", "not evaluated"];
  if (!binding && nonce) return ["a nonce for the TPM's quote", "user data, which may be of any age", "not evaluated"];
  return told;
}

/** Require the nonce of each report itself, as there is no binding. */
function requireNonce({ nonce, reportData, deviceNonces }: Presented, wanted: Bytes): Told | undefined {
  let told: Told | undefined;
  if (nonce) told = compare("the nonce (extraData)", "nonce-mismatch", wanted, nonce);
  else if (reportData) told = compare("the nonce", "nonce-mismatch", padded(wanted, REPORT_DATA_BYTES), reportData);
  for (const [name, each] of deviceNonces) told = compare(`the nonce of ${name}`, "nonce-mismatch", wanted, each);
  return told;
}

function compare(what: string, code: string, wanted: Bytes, got: Bytes): Told {
  const told = [hex(wanted), hex(got)] as const;
  if (!equal(wanted, got)) {
    fail("binding", code, "", { field: what, expected: told[0], got: told[1] });
  }
  return told;
}
