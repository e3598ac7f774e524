/**
 * Selection and verification of the RIMs for a device's driver, and for its VBIOS or BIOS.
 *
 * Edition, product and version decide; names and order of files say nothing. Several issues of one id can be available:
 * each is judged and compared as a whole, and values of two issues are never mixed.
 *
 * Spec: specs/nvidia-gpu.md, sections 8 to 10 and 12.
 */

import { type Bytes, hex, latin1, rfc3339 } from "../bytes";
import type { Dated } from "../chain";
import { AttestError, refusal, refusalOf, refuse } from "../errors";
import type { Given } from "../evidence";
import { type Status, requireNotRevoked } from "../ocsp";
import { type Told, worstOf } from "../procedure";
import type { Certificate, Issuer } from "../x509";
import type { DeviceModel } from "./certificates";
import type { Root } from "./chain";
import type { Decisions } from "./decisions";
import { type PresentedDevice, tolerancesOf } from "./presented";
import { type References, type Source, compare, mismatches } from "./measurements";
import type { OpaqueData } from "./opaque";
import { type ParsedRim, findSigners, readRim } from "./rim";

/** Maximum of examined issues and copies of one id: NVIDIA renews signatures about every two years. */
const MAX_ISSUES = 32;
/** Above every exit code of a refusal. */
const NO_FAILURE = 9;

/** From when to when, both bounds included; it may end before it begins. */
export type Window = readonly [from: number, to: number];

/** Problem of a RIM; undefined if there is none. */
export interface RimFailures {
  readonly signature?: AttestError | undefined;
  /** With its chain or its window. */
  readonly chain?: AttestError | undefined;
  /** It is not shown that no signer is revoked. */
  readonly revocation?: AttestError | undefined;
}

/** One RIM and what is to be said of it. */
export interface JudgedRim {
  readonly parsed: ParsedRim;
  /** Its root, if its signature holds and its signers lead to a pinned one; perhaps outside its window. */
  readonly root?: Root;
  /**
   * When all four certificates are valid: those of the root are the dates that are held, else those of the embedded
   * one.
   */
  readonly window?: Window;
  readonly failures: RimFailures;
  /** Proofs that L4, L3 and L2 are not revoked; empty if there are none. */
  readonly statuses: readonly Status[];
}

/** A RIM that a verified device rests on. */
export interface ReliedRim extends JudgedRim {
  readonly root: Root;
  readonly window: Window;
}

/**
 * Version of what a RIM speaks for, as the report states it: a GPU writes that of its VBIOS in five of eight bytes
 * (`96.00.74.00.1A`), a switch that of its BIOS as text. `gpu-kind-mismatch`: the report is well formed, and not of
 * what its certificate says.
 */
export function versionOf(
  { bios, driverVersion }: OpaqueData,
  { kind }: DeviceModel,
  source: Source,
): string | undefined {
  if (kind === "nvidia-gpu" && source === "driver") return driverVersion;
  if (!bios) return undefined;
  const text = kind === "nvidia-gpu" ? vbiosVersion(bios) : /^([ -~]+)\0*$/.exec(latin1(bios))?.[1];
  return text ?? refuse("binding", "gpu-kind-mismatch", kind, bios);
}

function vbiosVersion(bios: Bytes): string | undefined {
  if (bios.length !== 8) return undefined;
  return [3, 2, 1, 0, 4].map((i) => hex(bios.slice(i, i + 1)).toUpperCase()).join(".");
}

// -- choosing

/**
 * Judge every RIM that claims to be the wanted one and return the best; undefined when there is none.
 *
 * One good issue without a mismatch suffices. If none is good, one that is false is returned before one that is stale,
 * so that a missing endorsement hides nothing.
 */
export async function chooseRim(
  presented: PresentedDevice,
  model: DeviceModel,
  source: Source,
  version: string,
): Promise<JudgedRim | undefined> {
  const fitting = await fittingRims(model, version, presented.given);
  const judged = await Promise.all(fitting.map((rim) => judge(rim, presented)));
  const ranks = new Map(judged.map((rim) => [rim, rank(rim, source, presented)]));
  return judged.sort((one, other) => (ranks.get(one) ?? 0) - (ranks.get(other) ?? 0))[0];
}

/** The RIMs that claim to be the wanted one; what cannot be read is passed over, and then missing. */
async function fittingRims(
  { kind, product }: DeviceModel,
  wanted: string,
  { endorsements }: Given,
): Promise<ParsedRim[]> {
  const version = wanted.toLowerCase();
  const fitting: ParsedRim[] = [];
  for (const document of endorsements.rims) {
    // A RIM states its version in plain text, and reading every RIM for each device would be slow.
    if (fitting.length === MAX_ISSUES || !latin1(document.der).toLowerCase().includes(version)) continue;
    const rim = await refusalOf(() => readRim(document));
    if (rim instanceof AttestError) continue;
    const isOfKind = kind === `nvidia-${rim.edition.toLowerCase()}` && rim.product === product;
    if (isOfKind && rim.version.toLowerCase() === version) fitting.push(rim);
  }
  return fitting;
}

/** The worst failure's exit code first, the lowest in front; of equals, one without a mismatch. */
function rank(rim: JudgedRim, source: Source, presented: PresentedDevice): number {
  const { signature, chain, revocation } = rim.failures;
  const isTolerated = revocation?.kind === "endorsement" && presented.given.unchecked.some(isAboutRevocation);
  const counting = [signature, chain, isTolerated ? undefined : revocation];
  const worst = Math.min(...counting.map((failure) => failure?.exitCode ?? NO_FAILURE));
  const { report } = presented.evidence;
  const results = compare(report, { [source]: comparable(rim) }, tolerancesOf(presented).waived);
  const differs = mismatches(results).length > 0;
  // The best has no failure at all, and comes in front of the lowest exit code.
  return (worst === NO_FAILURE ? 0 : worst) * 2 + (differs ? 1 : 0);
}

const isAboutRevocation = ({ check }: { readonly check: string }): boolean => check === "revocation";

/**
 * The RIM, if NVIDIA said this and did not take it back, be it out of date: a measurement that differs from a stale RIM
 * is a finding all the same; one that equals it proves nothing, because being stale is a failure of its own.
 */
export function comparable(judged: JudgedRim | undefined): ParsedRim | undefined {
  if (!judged?.root) return undefined;
  const failures: readonly (AttestError | undefined)[] = Object.values(judged.failures);
  const isOnlyStale = failures.every((failure) => !failure || failure.kind === "endorsement");
  return isOnlyStale ? judged.parsed : undefined;
}

// -- judging

async function judge(parsed: ParsedRim, presented: PresentedDevice): Promise<JudgedRim> {
  const { anchors, at } = presented.given;
  const signature = parsed.isSigned ? undefined : refusal("signature", "rim-signature-invalid", "valid", "another");
  const root = await refusalOf(() => findSigners(parsed, anchors));
  if (root instanceof AttestError) return { parsed, failures: { signature, chain: root }, statuses: [] };
  const signers = parsed.certificates.slice(0, 3);
  const window = windowOf([...signers, root.issuer]);
  const chain = outside(window, at);
  if (signature) return { parsed, window, failures: { signature, chain }, statuses: [] };
  const held = tolerancesOf(presented).heldRimSigners;
  const found = await refusalOf(() => statusesOf(signers, root.issuer, presented.given, held));
  if (found instanceof AttestError) {
    return { parsed, root, window, failures: { chain, revocation: found }, statuses: [] };
  }
  return { parsed, root, window, failures: { chain }, statuses: found };
}

/** Outside its window a RIM is a stale endorsement: NVIDIA issues the same id again. */
function outside([from, to]: Window, at: number): AttestError | undefined {
  if (from <= at && at <= to) return undefined;
  const code = at < from ? "rim-not-yet-valid" : "rim-expired";
  const dates = `${rfc3339(from)} to ${rfc3339(to)}`;
  return refusal("endorsement", code, dates, rfc3339(at), { retryable: true });
}

/** The window in which all of them are valid. */
export function windowOf(all: readonly Dated[]): Window {
  return [Math.max(...all.map(({ notBefore }) => notBefore)), Math.min(...all.map(({ notAfter }) => notAfter))];
}

// -- revocation

/**
 * Return what shows that none of L4, L3 and L2 is revoked. All three are looked at, so that a missing answer about one
 * hides no revocation of another.
 */
export async function statusesOf(
  certificates: readonly Certificate[],
  root: Issuer,
  { endorsements, at }: Pick<Given, "endorsements" | "at">,
  hold?: string,
): Promise<readonly Status[]> {
  const weighed = { answers: endorsements.ocsp, crls: endorsements.crls, at, hold };
  const found = await Promise.all(
    certificates.map((certificate, i) =>
      refusalOf(() => requireNotRevoked(certificate, certificates[i + 1] ?? root, weighed)),
    ),
  );
  const worst = worstOf(found.filter((status) => status instanceof AttestError));
  if (worst) throw worst;
  return found.flatMap((status) => (status instanceof AttestError ? [] : [status]));
}

/** True if this is an answer about a certificate on hold, which is tolerated. A list has no status. */
export const isHeld = ({ status = "good" }: Status): boolean => status !== "good";

/** Tell what shows that certificates are not revoked, or which decision left it unchecked. */
export function tellStatuses(statuses: readonly Status[], decisions: Decisions, hold: string | undefined): Told {
  const expected = "good";
  if (!statuses.length) return [expected, decisions.reasons(), "not evaluated"];
  const got = statuses
    .map(({ status, thisUpdate }) => `${status ?? "not listed"} on ${rfc3339(thisUpdate)}`)
    .join("; ");
  return statuses.some(isHeld) ? [expected, `${got}: ${hold ?? ""}`, "warning"] : [expected, got];
}

/** The RIMs whose reference values count. */
export function comparables(rims: Readonly<Record<Source, { readonly rim: JudgedRim | undefined }>>): References {
  return { driver: comparable(rims.driver.rim), vbios: comparable(rims.vbios.rim) };
}
