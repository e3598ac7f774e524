/**
 * What holds the items of one Attester together: the binding, the challenge, and the devices that it names. A CPU
 * report commits to the binding, the binding lists every other device, and each of those was asked under a nonce that
 * only this challenge gives. (DESIGN 7; must-check.md 1, 2 and 11.)
 */

import { type Binding, type ExpectedBinding, bindingGpuNonce, bindingReportData, requireBinding } from "./binding";
import { type Bytes, compareBytes, hex, padded, utf8 } from "./bytes";
import { type Check, type Told, same, taken } from "./checks";
import { type Item, itemDigest } from "./envelope";
import { type AttestError, need } from "./errors";

export const REPORT_DATA_BYTES = 64;
const DEVICE_NONCE_BYTES = 32;
const EXTRA_DATA_BYTES = 48;

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
  readonly checks: Check[];
  readonly failures: AttestError[];
  readonly freshness: Freshness;
}

/** Compare the binding with REPORT_DATA and with the devices, and all of it with what was expected. */
export async function judgeComposite(presented: Presented, expected: Expected): Promise<Composite> {
  requireMeetable(presented, expected);
  const { binding, reportData, nonce, others, deviceNonces } = presented;
  const committed = binding && (await bindingReportData(binding));
  const asked = binding && (await bindingGpuNonce(binding));
  const judges: readonly (readonly [
    id: string,
    clause: string,
    applies: unknown,
    judge: () => Told | Promise<Told>,
  ])[] = [
    [
      "binding.report_data",
      "DESIGN 7, REPORT_DATA",
      binding,
      () =>
        same(reportData ? "binding-report-data-mismatch" : "binding-uncommitted", "REPORT_DATA", committed, reportData),
    ],
    // An old quote of the same TPM beside fresh user data would show registers of a time long past.
    [
      "binding.extra_data",
      "DESIGN 7, Azure; azure-cvm.md 8",
      binding && nonce,
      () => same("binding-extra-data-mismatch", "extraData", committed?.slice(0, EXTRA_DATA_BYTES), nonce),
    ],
    [
      "binding.devices",
      "DESIGN 7, devices",
      binding ?? (reportData && others.length),
      () => requireDevices(binding, others),
    ],
    [
      "binding.device_nonce",
      "DESIGN 7, GPU nonce; must-check.md 11",
      binding && deviceNonces.length,
      () => sameOfDevices("device-nonce-mismatch", asked, deviceNonces),
    ],
    ["freshness", "RFC 9334, section 10; must-check.md 1", true, () => requireFresh(presented, expected)],
  ];
  const [checks, failures]: [Check[], AttestError[]] = [[], []];
  for (const [id, clause, applies, judge] of judges) {
    if (!applies) continue;
    const [made, refused] = await taken(id, clause, judge);
    checks.push(made);
    if (refused) failures.push(refused);
  }
  const outcome = checks.at(-1)?.outcome;
  return {
    checks,
    failures,
    freshness: outcome === "pass" ? "matched" : outcome === "fail" ? "mismatched" : "not evaluated",
  };
}

/** Refuse evidence that cannot answer what was asked: what the Attester sent decides, and never throws anything else. */
function requireMeetable({ reportData, binding, deviceNonces }: Presented, expected: Expected): void {
  need(reportData || !expected.reportData, "binding", "option-not-applicable", "a CPU report", "none", {
    field: "reportData",
  });
  const size = expected.nonce?.length ?? DEVICE_NONCE_BYTES;
  need(
    binding || !deviceNonces.length || size === DEVICE_NONCE_BYTES,
    "binding",
    "nonce-length",
    DEVICE_NONCE_BYTES,
    size,
    { field: "nonce" },
  );
}

/** Require that every device was asked under this nonce, and no other. */
function sameOfDevices(code: string, wanted: Bytes | undefined, nonces: Presented["deviceNonces"]): Told {
  for (const [name, nonce] of nonces) same(code, name, wanted, nonce);
  return [wanted, `${nonces.length} devices carry it`];
}

/** Require that the binding lists every other device, known or not, in the order of names (code points, as Python's). */
async function requireDevices(binding: Binding | undefined, others: readonly Item[]): Promise<Told> {
  if (!binding) return [`a binding that lists ${others.length} devices`, "none", "not evaluated"];
  const sorted = [...others].sort((a, b) => compareBytes(utf8(a.name), utf8(b.name)));
  const expected = binding.devices.map(hex);
  const got = (await Promise.all(sorted.map(itemDigest))).map(hex);
  return same("binding-devices-mismatch", "binding.devices", expected, got);
}

/** Require an answer to this very question: by the binding, or by each report itself when there is none. */
function requireFresh({ binding, reportData, nonce, deviceNonces }: Presented, expected: Expected): Told {
  if (expected.binding) {
    need(binding, "binding", "binding-missing", expected.binding.context, "none", { field: "binding" });
    requireBinding(expected.binding, binding);
    return [expected.binding.nonce, binding.nonce];
  }
  let told: Told = ["a nonce or report data", "none was given", "not evaluated"];
  if (expected.reportData) {
    told = same("report-data-mismatch", "REPORT_DATA", expected.reportData, reportData);
    // Of devices, or of a TPM, which carry a nonce of their own, it tells nothing.
    if (!binding && (deviceNonces.length || nonce)) {
      told = ["a nonce", "report data, which may be of any age", "not evaluated"];
    }
  }
  const wanted = expected.nonce;
  if (!wanted) return told;
  if (binding) return same("nonce-mismatch", "nonce", wanted, binding.nonce);
  if (nonce) told = same("nonce-mismatch", "nonce (extraData)", wanted, nonce);
  else if (reportData) told = same("nonce-mismatch", "nonce", padded(wanted, REPORT_DATA_BYTES), reportData);
  return deviceNonces.length ? sameOfDevices("nonce-mismatch", wanted, deviceNonces) : told;
}
