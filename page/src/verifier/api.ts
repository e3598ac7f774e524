/**
 * The attestation check in a browser: whether evidence is genuine, by the same procedure, names, check ids and error
 * codes as `attest verify --json`. It fetches nothing, reads no clock and needs WebCrypto, so a secure context.
 */

import { type TrustAnchors, simulationAnchors, vendorAnchors } from "./anchors";
import { type Bytes, copyOf, hexBytes, rfc3339, utf8 } from "./bytes";
import { type Check as MadeCheck, UNCHECKED_NAMES, check } from "./checks";
import { type Expected, REPORT_DATA_BYTES } from "./composite";
import { type Evidence, MEDIA, itemOf, requireSound } from "./envelope";
import { AttestError, refusalOf } from "./errors";
import type { Given, Tolerances } from "./formats";
import { merged } from "./pool";
import { type NamedBytes, readEndorsements, readEvidence } from "./recognition";
import { verify } from "./verify";

/** Bytes, or the same as hex. */
export type BytesOrHex = Uint8Array | string;

/** One file. */
export interface FileBytes {
  /** For messages. */
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** A named, reasoned decision to tolerate that one thing cannot be judged; shown in the result. */
export interface UncheckedReason {
  readonly check: "revocation" | "freshness" | "rim" | "tcb" | "eventlog" | "topology";
  readonly reason: string;
}

/** What a Relying Party demands of the binding that came with the evidence. */
export interface BindingExpectation {
  readonly context: string;
  readonly role: string;
  readonly audience: string;
  /** 32 bytes. */
  readonly nonce: BytesOrHex;
  /** What it must commit to; left out where whoever asks compares it. */
  readonly key?: BytesOrHex | undefined;
}

/** What a policy lets deviate in NVIDIA's devices of one kind, each with its reason; shown in the result. */
export interface ToleranceReasons {
  /** By RIM index, 0 to 63: a measurement there that differs is only shown. */
  readonly waivedMeasurements?: Readonly<Record<string, string>> | undefined;
  /** A RIM signer on hold counts all the same. */
  readonly heldRimSigners?: string | undefined;
}

export interface VerifyOptions {
  /** Moment of appraisal: a Date, or milliseconds since 1970. */
  readonly at: Date | number;
  /** What the evidence must carry to be fresh: 1 to 64 bytes. */
  readonly nonce?: BytesOrHex | undefined;
  /** All 64 bytes of report data (on Azure those of the user data, which alone are no freshness). */
  readonly reportData?: BytesOrHex | undefined;
  /** What the binding must say; instead of a nonce. */
  readonly binding?: BindingExpectation | undefined;
  /** Certificates, CRLs, collateral, RIMs, OCSP answers, bundles: candidates, none of them trusted. */
  readonly endorsements?: readonly (Uint8Array | FileBytes)[] | undefined;
  /** A CCEL or TCG2 log that must replay to the evidence's registers. */
  readonly eventLog?: Uint8Array | undefined;
  /** `"vendors"` unless said otherwise. A result that rests on `"simulation"` says `simulated: true`. */
  readonly anchors?: "vendors" | "simulation" | undefined;
  readonly unchecked?: readonly UncheckedReason[] | undefined;
  readonly tolerances?: { readonly gpus?: ToleranceReasons | undefined; readonly switches?: ToleranceReasons | undefined } | undefined;
}

export type Outcome = "pass" | "fail" | "warning" | "not evaluated";

export interface CheckResult {
  readonly id: string;
  readonly outcome: Outcome;
  readonly tier: "affirming" | "warning" | "contraindicated" | "none";
  readonly expected: string;
  readonly got: string;
  readonly clause: string;
  /** Name of the evidence item that was examined. */
  readonly item?: string;
}

export type ClaimJson = null | boolean | number | string | readonly ClaimJson[] | { readonly [name: string]: ClaimJson };

export interface ItemResult {
  readonly name: string;
  readonly kind: string;
  readonly claims: { readonly [name: string]: ClaimJson };
}

/** Why evidence was refused; the hints stand in docs/errors.md, under the code. */
export interface ErrorResult {
  readonly code: string;
  readonly message: string;
  readonly check?: string;
  readonly field?: string;
  readonly offset?: number;
  readonly expected?: string;
  readonly got?: string;
  readonly clause?: string;
  readonly retryable?: true;
}

/** The versioned result of `attest verify --json`. */
export interface Result {
  readonly schema: "attest.result/1";
  readonly command: "verify";
  readonly outcome: "verified" | "refused";
  readonly at: string;
  readonly simulated: boolean;
  readonly freshness: "matched" | "mismatched" | "not evaluated";
  readonly unchecked: readonly UncheckedReason[];
  readonly error: ErrorResult | null;
  /** SHA-384 over all items of verified evidence: by it a result names what it is about. */
  readonly evidence_digest?: string;
  readonly ignored_items?: readonly string[];
  readonly items: readonly ItemResult[];
  readonly checks: readonly CheckResult[];
}

const TIERS = { pass: "affirming", warning: "warning", fail: "contraindicated", "not evaluated": "none" } as const;

/**
 * Verify all evidence of one Attester.
 *
 * @param input bytes of an envelope, a raw report or quote, or a vendor's JSON; an object is the JSON, parsed; an array
 *   is several files that belong together.
 * @returns a result for any evidence at all; `outcome` is `verified` or `refused`, and nothing else is a success.
 * @throws TypeError for options that no evidence could meet: a programmer's mistake
 */
export async function verifyEvidence(input: Uint8Array | object | readonly (Uint8Array | FileBytes)[], options: VerifyOptions): Promise<Result> {
  const at = momentOf(options.at);
  const unchecked = uncheckedOf(options.unchecked ?? []);
  const tolerances = { gpus: toleranceOf(options.tolerances?.gpus), switches: toleranceOf(options.tolerances?.switches) };
  const [expected, anchors, endorsements] = [expectedOf(options), anchorsOf(options.anchors), filesOf(options.endorsements ?? [], "endorsements")];
  const log = options.eventLog && copyOf(options.eventLog);
  const head = { schema: "attest.result/1", command: "verify", at: rfc3339(at), unchecked } as const;
  const found = await refusalOf(async () => {
    const recognised = await readEvidence(inputFiles(input));
    const pool = merged(recognised.presented, await readEndorsements(endorsements, at));
    const given: Given = { endorsements: pool, anchors, at, unchecked, tolerances };
    return verify(withLog(recognised.evidence, log), given, expected);
  });
  if (found instanceof AttestError) return { ...head, ...refused(found) };
  const { simulated, freshness, items, ignored, digest } = found;
  return { ...head, outcome: "verified", simulated, freshness, error: null, evidence_digest: digest, ignored_items: ignored, items, checks: told(found.checks) };
}

function told(checks: readonly MadeCheck[]): CheckResult[] {
  return checks.map((each) => ({ ...each, tier: TIERS[each.outcome] }));
}

function refused(error: AttestError): Pick<Result, "outcome" | "simulated" | "freshness" | "error" | "items" | "checks"> {
  const checks = error.checks.length ? error.checks : [onlyCheck(error)];
  const has = (outcome: Outcome, ...ids: readonly string[]): boolean => checks.some((each) => each.outcome === outcome && ids.includes(each.id));
  const mismatched = has("fail", "freshness", "binding.report_data");
  return {
    outcome: "refused",
    simulated: error.code === "simulated-root-refused",
    freshness: mismatched ? "mismatched" : has("pass", "freshness") ? "matched" : "not evaluated",
    error: { code: error.code, message: error.message, ...known(error.facts) },
    items: [],
    checks: told(checks),
  };
}

function known(facts: AttestError["facts"]): Omit<ErrorResult, "code" | "message"> {
  return Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined && value !== false));
}

/** The one check that a refusal without a procedure stands for. */
function onlyCheck({ kind, facts, message }: AttestError): MadeCheck {
  const id = facts.check ?? (kind === "binding" ? "freshness" : "evidence.format");
  return check(id, "fail", facts.expected ?? "evidence that can be read", facts.got ?? message, facts.clause ?? "");
}

// -- what the caller gives

/** Put the event log beside the evidence to whose registers it must replay. */
function withLog(evidence: Evidence, log: Bytes | undefined): Evidence {
  return log ? requireSound([...evidence, itemOf("eventlog", MEDIA.eventLog, log)]) : evidence;
}

/** Moments that RFC 3339 can write: years 1 to 9999. */
const [FIRST_YEAR, LAST_YEAR] = [-62_135_596_800_000, 253_402_300_799_999];

function momentOf(at: Date | number): number {
  const ms = typeof at === "number" ? at : at instanceof Date ? at.getTime() : Number.NaN;
  if (!Number.isFinite(ms) || ms < FIRST_YEAR || ms > LAST_YEAR) throw new TypeError("at: expected a Date or milliseconds since 1970");
  return Math.trunc(ms);
}

function uncheckedOf(unchecked: readonly UncheckedReason[]): UncheckedReason[] {
  return unchecked.map(({ check: name, reason }) => {
    if (!UNCHECKED_NAMES.includes(name)) throw new TypeError(`cannot leave ${name} unchecked`);
    if (!reason.trim()) throw new TypeError(`leaving ${name} unchecked needs a reason`);
    return { check: name, reason };
  });
}

function toleranceOf({ waivedMeasurements = {}, heldRimSigners }: ToleranceReasons = {}): Tolerances {
  const waived = Object.entries(waivedMeasurements);
  if (waived.some(([index]) => !/^(?:\d|[1-5]\d|6[0-3])$/.test(index))) throw new TypeError("a measurement index is 0 to 63");
  const reasons = [...waived.map(([, reason]) => reason), heldRimSigners ?? "none needed"];
  if (!reasons.every((reason) => reason.trim())) throw new TypeError("a tolerance needs a reason");
  return { waived: new Map(waived.map(([index, reason]) => [Number(index), reason])), heldRimSigners };
}

function anchorsOf(anchors: VerifyOptions["anchors"]): TrustAnchors {
  if (anchors === undefined || anchors === "vendors") return vendorAnchors();
  if (anchors === "simulation") return simulationAnchors();
  throw new TypeError('anchors: expected "vendors" or "simulation"');
}

function sized(value: BytesOrHex, name: string, least: number, most: number): ReturnType<typeof copyOf> {
  let bytes;
  try {
    bytes = typeof value === "string" ? hexBytes(value, name) : copyOf(value);
  } catch (error) {
    throw new TypeError(`${name}: ${(error as Error).message}`, { cause: error });
  }
  if (bytes.length < least || bytes.length > most) throw new TypeError(`${name}: expected ${least} to ${most} bytes, got ${bytes.length}`);
  return bytes;
}

function expectedOf({ nonce, reportData, binding }: VerifyOptions): Expected {
  if (binding && (nonce !== undefined || reportData !== undefined)) throw new TypeError("give a binding, or a nonce and report data");
  return {
    nonce: nonce === undefined ? undefined : sized(nonce, "nonce", 1, REPORT_DATA_BYTES),
    reportData: reportData === undefined ? undefined : sized(reportData, "reportData", REPORT_DATA_BYTES, REPORT_DATA_BYTES),
    binding: binding && {
      ...binding,
      nonce: sized(binding.nonce, "binding.nonce", 32, 32),
      key: binding.key === undefined ? undefined : sized(binding.key, "binding.key", 1, 4096),
    },
  };
}

function filesOf(files: readonly (Uint8Array | FileBytes)[], what: string): NamedBytes[] {
  return files.map((file, i) => {
    const { name, bytes } = file instanceof Uint8Array ? { name: `${what}[${i}]`, bytes: file } : file;
    if (!(bytes instanceof Uint8Array)) throw new TypeError(`${what}[${i}]: expected bytes`);
    return { name, bytes: copyOf(bytes) };
  });
}

function inputFiles(input: Uint8Array | object): NamedBytes[] {
  if (input instanceof Uint8Array) return filesOf([input], "evidence");
  const isFile = (entry: unknown): boolean => entry instanceof Uint8Array || (entry as FileBytes | null)?.bytes instanceof Uint8Array;
  if (Array.isArray(input) && input.length && input.every(isFile)) return filesOf(input as FileBytes[], "evidence");
  return [{ name: "evidence", bytes: utf8(JSON.stringify(input) ?? "") }];
}
