/**
 * Which RIM speaks for a device's driver, and which for its VBIOS or BIOS; and whether it may.
 *
 * Edition, product and version decide; names and order of files say nothing. Several issues of one id can be at hand:
 * each is judged and compared as a whole, and values of two issues are never mixed.
 *
 * Spec: specs/nvidia-gpu.md, sections 8 to 10 and 12.
 */

import type { TrustAnchors } from "../anchors";
import { latin1 } from "../bytes";
import { AttestError, refusalOf } from "../errors";
import { type Status, requireNotRevoked } from "../ocsp";
import type { Endorsements } from "../pool";
import type { Certificate, Issuer } from "../x509";
import type { DeviceModel } from "./certificates";
import { type Source, type Waivers, compare, mismatches } from "./measurements";
import { gpuVbiosVersion, switchBiosVersion } from "./opaque";
import { type ParsedRim, type VerifiedRim, findSigners, readRim, requireSignature, requireWindow } from "./rim";
import type { RimEdition } from "./rim_document";
import type { ParsedGpuReport } from "./structure";

/** Issues of one id that are looked at: NVIDIA signs anew about every two years. */
const MAX_ISSUES = 16;

/** What a RIM must be in order to speak for a part of a device. */
export interface WantedRim {
  readonly source: Source;
  readonly edition: RimEdition;
  readonly product: string;
  /** That the report states; undefined fits no RIM. */
  readonly version: string | undefined;
  /** What is wanted, in words. */
  readonly text: string;
}

/** Name the RIM that a report calls for; `gpu-report-malformed` if its version is not written as such a device does. */
export function wantedRim({ opaque }: ParsedGpuReport, { kind, product }: DeviceModel, source: Source): WantedRim {
  const edition = kind === "nvidia-switch" ? "SWITCH" : "GPU";
  const driver = source === "driver";
  const version = edition === "SWITCH" ? switchBiosVersion(opaque) : driver ? opaque.driverVersion : gpuVbiosVersion(opaque);
  const what = edition === "SWITCH" ? "BIOS" : driver ? "driver" : "VBIOS";
  return { source, edition, product, version, text: `the RIM of ${product}, ${what} ${version ?? "of no stated version"}` };
}

/** The RIMs that claim to be the wanted one; what cannot be read is passed over, and then missing. */
async function fittingRims(wanted: WantedRim, { rims }: Endorsements): Promise<ParsedRim[]> {
  const version = wanted.version?.toLowerCase();
  const fitting: ParsedRim[] = [];
  for (const document of version === undefined ? [] : rims) {
    // A RIM states its version in plain text, and reading every RIM for each device would be slow.
    if (!latin1(document.der).toLowerCase().includes(version as string)) continue;
    const rim = await refusalOf(() => readRim(document));
    if (rim instanceof AttestError) continue;
    const fits = rim.edition === wanted.edition && rim.product === wanted.product && rim.version.toLowerCase() === version;
    if (fits && fitting.push(rim) === MAX_ISSUES) break;
  }
  return fitting;
}

/** One RIM and what is to be said of it. */
export interface JudgedRim {
  readonly parsed: ParsedRim;
  /** With its signers, if its signature holds and they lead to a pinned root; perhaps outside its window. */
  readonly verified: VerifiedRim | undefined;
  readonly signature: AttestError | undefined;
  readonly chain: AttestError | undefined;
  /** Why it is not shown that no signer is revoked; undefined also when `verified` is. */
  readonly revocation: AttestError | undefined;
  /** What shows it, for L4, L3 and L2; empty when nothing does. */
  readonly statuses: readonly Status[];
}

function failures({ signature, chain, revocation }: JudgedRim): AttestError[] {
  return [signature, chain, revocation].filter((failure) => failure !== undefined);
}

/**
 * The RIM, if NVIDIA said this and did not take it back, be it out of date: a measurement that differs from a stale RIM
 * is a finding all the same; one that equals it proves nothing, because being stale is a failure of its own.
 */
export function comparable(judged: JudgedRim | undefined): ParsedRim | undefined {
  const stale = judged && failures(judged).every((failure) => failure.kind === "endorsement");
  return stale ? judged.verified?.parsed : undefined;
}

/** What RIMs are judged by. */
export interface Judging {
  readonly pool: Endorsements;
  readonly anchors: TrustAnchors;
  readonly at: number;
  /** Reasons by index for mismatches that are only shown. */
  readonly waived: Waivers;
  /** Why a RIM signer on hold counts all the same. */
  readonly hold?: string | undefined;
  /** Whether a missing answer about revocation is tolerated. */
  readonly revocationTolerated: boolean;
}

/**
 * Judge every RIM that claims to be the wanted one and return the best; undefined when there is none.
 *
 * One good issue without a mismatch suffices. If none is good, one that is false is returned before one that is stale,
 * so that a missing endorsement hides nothing.
 */
export async function chooseRim(wanted: WantedRim, report: ParsedGpuReport, given: Judging): Promise<JudgedRim | undefined> {
  const judged = await Promise.all((await fittingRims(wanted, given.pool)).map((rim) => judge(rim, given)));
  if (judged.length < 2) return judged[0];
  const rank = (rim: JudgedRim): number => {
    const tolerated = (failure: AttestError): boolean =>
      given.revocationTolerated && failure === rim.revocation && failure.kind === "endorsement";
    const codes = failures(rim).flatMap((failure) => (tolerated(failure) ? [] : [failure.exitCode]));
    const found = comparable(rim);
    const differs = found && mismatches(compare(report, { [wanted.source]: found }, given.waived)).length > 0;
    return (codes.length ? Math.min(...codes) : 0) * 2 + (differs ? 1 : 0);
  };
  return judged.reduce((best, rim) => (rank(rim) < rank(best) ? rim : best));
}

async function judge(parsed: ParsedRim, { pool, anchors, at, hold }: Judging): Promise<JudgedRim> {
  const signature = await failureOf(() => requireSignature(parsed));
  const nothing = { parsed, verified: undefined, signature, revocation: undefined, statuses: [] };
  const signed = await refusalOf(() => findSigners(parsed, anchors));
  if (signed instanceof AttestError) return { ...nothing, chain: signed };
  const chain = await failureOf(() => requireWindow(signed, at));
  if (signature) return { ...nothing, chain };
  const statuses = await refusalOf(() => statusesOf(signed.signers, signed.root, pool, at, hold));
  const shown = statuses instanceof AttestError ? { revocation: statuses } : { statuses };
  return { ...nothing, verified: signed, chain, ...shown };
}

async function failureOf(attempt: () => void): Promise<AttestError | undefined> {
  const found = await refusalOf(attempt);
  return found instanceof AttestError ? found : undefined;
}

/**
 * Return what shows that none of L4, L3 and L2 is revoked. All three are looked at, so that a missing answer about one
 * hides no revocation of another.
 */
export async function statusesOf(
  certificates: readonly Certificate[],
  root: Issuer,
  pool: Endorsements,
  at: number,
  hold?: string,
): Promise<Status[]> {
  const found = await Promise.all(
    certificates.map((certificate, position) => {
      const issuer = certificates[position + 1] ?? root;
      return refusalOf(() => requireNotRevoked(certificate, issuer, { answers: pool.ocsp, crls: pool.crls, at, hold }));
    }),
  );
  const refused = found.filter((status) => status instanceof AttestError);
  if (refused.length) throw refused.reduce((worst, failure) => (failure.exitCode < worst.exitCode ? failure : worst));
  return found.flatMap((status) => (status instanceof AttestError ? [] : [status]));
}
