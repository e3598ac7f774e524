/**
 * Connection of the items of one Attester: the binding, the challenge, and the devices that it names. A CPU
 * report commits to the binding, the binding lists every other device, and each of those answers a nonce
 * that is derived from this challenge. (DESIGN 7; must-check.md 1, 2 and 11.)
 */

import { type Binding, type ExpectedBinding, bindingGpuNonce, bindingReportData, requireBinding } from "./binding";
import { type Bytes, compareBytes, hex, padded, utf8 } from "./bytes";
import type { Check, Outcome } from "./checks";
import { Procedure, type Told, same } from "./procedure";
import { type Item, itemDigest } from "./envelope";
import { type AttestError, need } from "./errors";

export const REPORT_DATA_BYTES = 64;
const DEVICE_NONCE_BYTES = 32;
const EXTRA_DATA_BYTES = 48;

export type Freshness = "matched" | "mismatched" | "not evaluated";

/** Freshness values that the evidence must contain: a nonce, report data, or a whole binding. */
export interface Expected {
  readonly nonce?: Bytes | undefined;
  readonly reportData?: Bytes | undefined;
  readonly binding?: ExpectedBinding | undefined;
}

/** Presented parts that concern the evidence as a whole. */
export interface Presented {
  /** The CPU report's 64 bytes; undefined without CPU evidence. */
  readonly reportData: Bytes | undefined;
  /** The field of its own in which the CPU's evidence carries the nonce (extraData of a TPM's quote). */
  readonly nonce: Bytes | undefined;
  readonly binding: Binding | undefined;
  /** Every item that a binding must list: all devices but the CPU, known or not. */
  readonly others: readonly Item[];
  readonly deviceNonces: readonly (readonly [name: string, nonce: Bytes])[];
  /** A nonce of 32 bytes is the only one that some device can answer. */
  readonly isNonceSized: boolean;
}

export interface Composite {
  readonly checks: readonly Check[];
  readonly failures: readonly AttestError[];
  readonly freshness: Freshness;
}

/** Every check of the whole, in order; which of them apply depends on what was presented. */
const COMPOSITE_STEPS = {
  reportData: ["binding.report_data", "docs/protocol.md"],
  extraData: ["binding.extra_data", "docs/protocol.md; TPM 2.0 Library, part 2, TPMS_ATTEST, extraData"],
  devices: ["binding.devices", "docs/gpu.md"],
  deviceNonce: ["binding.device_nonce", "docs/gpu.md; DMTF DSP0274, GET_MEASUREMENTS, Nonce"],
  freshness: ["freshness", "RFC 9334, section 10"],
} as const;

/** Compare the binding with REPORT_DATA and with the devices, and all of it with what was expected. */
export async function judgeComposite(presented: Presented, expected: Expected): Promise<Composite> {
  requireMeetable(presented, expected);
  const { binding, others } = presented;
  const applying = stepsFor(presented);
  const procedure: CompositeProcedure = new Procedure(applying as typeof COMPOSITE_STEPS, { isIndependent: true });
  if (binding) await judgeBinding(procedure, binding, presented);
  if (applying.devices) {
    await procedure.attempt("devices", async (step) => step.tell(...(await requireDevices(binding, others))));
  }
  if (applying.deviceNonce && binding) {
    const asked = await bindingGpuNonce(binding);
    await procedure.attempt("deviceNonce", (step) =>
      step.tell(...sameOfDevices("device-nonce-mismatch", asked, presented.deviceNonces)),
    );
  }
  await procedure.attempt("freshness", (step) => step.tell(...requireFresh(presented, expected)));
  const { checks, failures } = procedure.outcome();
  return { checks, failures, freshness: FRESHNESS[checks.at(-1)?.outcome ?? "not evaluated"] };
}

type CompositeProcedure = Procedure<typeof COMPOSITE_STEPS>;

/** By the outcome of the last check. */
const FRESHNESS: Readonly<Record<Outcome, Freshness>> = {
  pass: "matched",
  fail: "mismatched",
  warning: "not evaluated",
  "not evaluated": "not evaluated",
};

function stepsFor({ binding, reportData, nonce, others, deviceNonces }: Presented): Partial<typeof COMPOSITE_STEPS> {
  const applies: Readonly<Record<string, boolean>> = {
    reportData: binding !== undefined,
    extraData: binding !== undefined && nonce !== undefined,
    devices: binding !== undefined || (reportData !== undefined && others.length > 0),
    deviceNonce: binding !== undefined && deviceNonces.length > 0,
  };
  return Object.fromEntries(Object.entries(COMPOSITE_STEPS).filter(([name]) => applies[name] ?? true));
}

/** Take the steps that compare the binding with what the CPU's evidence commits to. */
async function judgeBinding(
  procedure: CompositeProcedure,
  binding: Binding,
  { reportData, nonce }: Presented,
): Promise<void> {
  const committed = await bindingReportData(binding);
  await procedure.attempt("reportData", (step) => {
    const code = reportData ? "binding-report-data-mismatch" : "binding-uncommitted";
    step.tell(...same(code, "REPORT_DATA", committed, reportData));
  });
  if (!nonce) return;
  // An old quote of the same TPM beside fresh user data would show registers of a time long past.
  await procedure.attempt("extraData", (step) =>
    step.tell(...same("binding-extra-data-mismatch", "extraData", committed.slice(0, EXTRA_DATA_BYTES), nonce)),
  );
}

/**
 * Refuse evidence that cannot answer what was asked: what the Attester sent decides, and never throws anything else.
 */
function requireMeetable({ reportData, binding, isNonceSized }: Presented, expected: Expected): void {
  const hasReportData = reportData !== undefined || expected.reportData === undefined;
  need(hasReportData, "binding", "option-not-applicable", "a CPU report", "none", { field: "reportData" });
  const size = expected.nonce?.length ?? DEVICE_NONCE_BYTES;
  const fits = binding !== undefined || !isNonceSized || size === DEVICE_NONCE_BYTES;
  need(fits, "binding", "nonce-length", DEVICE_NONCE_BYTES, size, { field: "nonce" });
}

/** Require that every device was asked under this nonce, and no other. */
function sameOfDevices(code: string, wanted: Bytes | undefined, nonces: Presented["deviceNonces"]): Told {
  for (const [name, nonce] of nonces) same(code, name, wanted, nonce);
  return [wanted, `${nonces.length} devices carry it`];
}

/**
 * Require that the binding lists every other device, known or not, in the order of names (code points, as Python's).
 */
async function requireDevices(binding: Binding | undefined, others: readonly Item[]): Promise<Told> {
  if (!binding) return [`a binding that lists ${others.length} devices`, "none", "not evaluated"];
  const sorted = [...others].sort((a, b) => compareBytes(utf8(a.name), utf8(b.name)));
  const expected = binding.devices.map(hex);
  const got = (await Promise.all(sorted.map(itemDigest))).map(hex);
  return same("binding-devices-mismatch", "binding.devices", expected, got);
}

/** Require an answer to this very question: by the binding, or by each report itself when there is none. */
function requireFresh(presented: Presented, expected: Expected): Told {
  const { binding } = presented;
  if (expected.binding) {
    need(binding, "binding", "binding-missing", expected.binding.context, "none", { field: "binding" });
    requireBinding(expected.binding, binding);
    return [expected.binding.nonce, binding.nonce];
  }
  const told = requireReportData(presented, expected.reportData);
  return expected.nonce ? requireNonce(presented, expected.nonce, told) : told;
}

/** Require these report data, where any are expected. */
function requireReportData({ binding, reportData, nonce, deviceNonces }: Presented, expected: Bytes | undefined): Told {
  if (!expected) return ["a nonce or report data", "none was given", "not evaluated"];
  const told = same("report-data-mismatch", "REPORT_DATA", expected, reportData);
  // Of devices, or of a TPM, which carry a nonce of their own, it tells nothing.
  if (binding ?? (!deviceNonces.length && !nonce)) return told;
  return ["a nonce", "report data, which may be of any age", "not evaluated"];
}

/** Require this nonce in the binding; without one, in the CPU's report and in each device's. */
function requireNonce({ binding, reportData, nonce, deviceNonces }: Presented, wanted: Bytes, otherwise: Told): Told {
  if (binding) return same("nonce-mismatch", "nonce", wanted, binding.nonce);
  const told = requireReportNonce(wanted, reportData, nonce) ?? otherwise;
  return deviceNonces.length ? sameOfDevices("nonce-mismatch", wanted, deviceNonces) : told;
}

function requireReportNonce(wanted: Bytes, reportData: Bytes | undefined, nonce: Bytes | undefined): Told | undefined {
  if (nonce) return same("nonce-mismatch", "nonce (extraData)", wanted, nonce);
  if (!reportData) return undefined;
  return same("nonce-mismatch", "nonce", padded(wanted, REPORT_DATA_BYTES), reportData);
}
