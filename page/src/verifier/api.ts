/**
 * The attestation check in a browser: whether evidence is genuine, by the same procedure, names, check ids and error
 * codes as `attest verify --json`. It fetches nothing, reads no clock and needs WebCrypto, so a secure context.
 */

import { type TrustAnchors, simulationAnchors, vendorAnchors } from "./anchors";
import { type Bytes, NO_BYTES, copyOf, rfc3339, unhex, utf8 } from "./bytes";
import { type Check as MadeCheck, UNCHECKED_NAMES, check } from "./checks";
import { type Expected, REPORT_DATA_BYTES } from "./composite";
import { MEDIA, itemOf, requireSound } from "./envelope";
import { AttestError, refusalOf } from "./errors";
import type { Tolerances } from "./formats";
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
  readonly tolerances?:
    { readonly gpus?: ToleranceReasons | undefined; readonly switches?: ToleranceReasons | undefined } | undefined;
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

export type ClaimJson =
  null | boolean | number | string | readonly ClaimJson[] | { readonly [name: string]: ClaimJson };

export interface ItemResult {
  readonly name: string;
  readonly kind: string;
  readonly claims: Readonly<Record<string, ClaimJson>>;
}

/**
 * A certificate on which a verified item rests, leaf first, up to the pinned root. A root that is held as a key, and came as
 * no certificate, has a subject and a key only.
 */
export interface CertificateResult {
  /** Name of the evidence item. */
  readonly item: string;
  readonly subject: string;
  /** SHA-256 of the SubjectPublicKeyInfo, hex: what a trust anchor is pinned by. */
  readonly key_sha256: string;
  /** It is a trust anchor of this verification. */
  readonly pinned: boolean;
  readonly issuer?: string;
  /** Hex. */
  readonly serial?: string;
  readonly not_before?: string;
  readonly not_after?: string;
  /** Of the certificate's DER, hex. */
  readonly sha256?: string;
  readonly pem?: string;
}

/** Why evidence was refused; the hints stand in docs/errors.md, under the code. */
export interface ErrorResult {
  readonly code: string;
  readonly message: string;
  readonly check?: string | undefined;
  readonly field?: string | undefined;
  readonly offset?: number | undefined;
  readonly expected?: string | undefined;
  readonly got?: string | undefined;
  readonly clause?: string | undefined;
  readonly retryable?: boolean | undefined;
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
  /** What the command line's result does not have: the chains of verified evidence, for people to look at. */
  readonly certificates?: readonly CertificateResult[];
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
export async function verifyEvidence(
  input: Uint8Array | object | readonly (Uint8Array | FileBytes)[],
  options: VerifyOptions,
): Promise<Result> {
  const at = momentOf(options.at);
  const unchecked = uncheckedOf(options.unchecked ?? []);
  const tolerances = {
    gpus: toleranceOf(options.tolerances?.gpus),
    switches: toleranceOf(options.tolerances?.switches),
  };
  const expected = expectedOf(options);
  const anchors = anchorsOf(options.anchors);
  const files = inputFiles(input);
  const endorsements = filesOf(options.endorsements ?? []);
  const log = options.eventLog && itemOf("eventlog", MEDIA.eventLog, copyOf(options.eventLog));
  const head = { schema: "attest.result/1", command: "verify", at: rfc3339(at), unchecked } as const;
  const found = await refusalOf(async () => {
    const { evidence, presented } = await readEvidence(files);
    const pool = merged(presented, await readEndorsements(endorsements, at));
    return verify(
      log ? requireSound([...evidence, log]) : evidence,
      { endorsements: pool, anchors, at, unchecked, tolerances },
      expected,
    );
  });
  if (found instanceof AttestError) return { ...head, ...refused(found) };
  return { ...head, outcome: "verified", error: null, ...found, checks: told(found.checks) };
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
  const has = (outcome: Outcome, ...ids: readonly string[]): boolean =>
    checks.some((each) => each.outcome === outcome && ids.includes(each.id));
  return {
    outcome: "refused",
    simulated: code === "simulated-root-refused",
    freshness: has("fail", "freshness", "binding.report_data")
      ? "mismatched"
      : has("pass", "freshness")
        ? "matched"
        : "not evaluated",
    error: { code, message, ...facts },
    items: [],
    checks: told(checks),
  };
}

// -- what the caller gives

/** Require options that some evidence could meet. */
function usable(holds: unknown, problem: string): asserts holds {
  if (!holds) throw new TypeError(problem);
}

/** A moment that RFC 3339 can write: years 1 to 9999. */
function momentOf(at: Date | number): number {
  const ms = typeof at === "number" ? at : at instanceof Date ? at.getTime() : Number.NaN;
  usable(ms >= -62_135_596_800_000 && ms < 253_402_300_800_000, "at: a Date or milliseconds since 1970");
  return Math.trunc(ms);
}

function uncheckedOf(unchecked: readonly UncheckedReason[]): UncheckedReason[] {
  return unchecked.map(({ check: name, reason }) => {
    usable(UNCHECKED_NAMES.includes(name) && reason.trim(), `unchecked: ${name} and a reason`);
    return { check: name, reason };
  });
}

function toleranceOf({ waivedMeasurements = {}, heldRimSigners }: ToleranceReasons = {}): Tolerances {
  const waived = Object.entries(waivedMeasurements);
  usable(
    waived.every(([index]) => /^(?:\d|[1-5]\d|6[0-3])$/.test(index)),
    "waivedMeasurements: 0 to 63",
  );
  usable(
    [...Object.values(waivedMeasurements), heldRimSigners ?? "-"].every((reason) => reason.trim()),
    "a tolerance needs a reason",
  );
  return { waived: new Map(waived.map(([index, reason]) => [Number(index), reason])), heldRimSigners };
}

function anchorsOf(anchors: VerifyOptions["anchors"] = "vendors"): TrustAnchors {
  usable(anchors === "vendors" || anchors === "simulation", "anchors: vendors or simulation");
  return anchors === "vendors" ? vendorAnchors() : simulationAnchors();
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

/** Bytes, several files, or else JSON that was parsed. */
function inputFiles(input: Uint8Array | object): NamedBytes[] {
  const files: readonly unknown[] = Array.isArray(input) && input.length ? input : [input];
  const areFiles = files.every(
    (file) => file instanceof Uint8Array || (file as FileBytes | null)?.bytes instanceof Uint8Array,
  );
  return filesOf(areFiles ? (files as FileBytes[]) : [utf8(JSON.stringify(input) ?? "")]);
}
