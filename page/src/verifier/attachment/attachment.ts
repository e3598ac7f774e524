/**
 * Attachments: data beside a CPU's evidence that the evidence commits to, or that endorses what it states. Fetched once
 * one is met.
 */

import type { TrustAnchors } from "../anchors";
import type { Check } from "../checks";
import type { Claims } from "../claims";
import { type Item, MEDIA } from "../envelope";
import { AttestError, need, refusalOf } from "../errors";
import type { JudgedSet, ParsedCpu } from "../evidence";
import { readCertificateAttachment } from "./certificate";
import { readCommittedData } from "./committed_data";
import type { Judge } from "./record";
import { readUvmEndorsement } from "./uvm_endorsement";

export { carriedQuote } from "./certificate";
export { committedDataBytes } from "./committed_data";

/** The outcome for all attachments of one Attester. */
export interface JudgedAttachments extends JudgedSet {
  readonly claims: Claims;
  readonly simulated: boolean;
}

type Format = readonly [name: string, read: (item: Item) => Judge];

const FORMATS: ReadonlyMap<string, Format> = new Map<string, Format>([
  [MEDIA.attestedCertificate, ["certificate", readCertificateAttachment]],
  [MEDIA.committedData, ["committed_data", readCommittedData]],
  [MEDIA.uvmEndorsement, ["uvm", readUvmEndorsement]],
]);

/** Read attachments, one of each kind beside evidence with report data; what comes back judges them. */
export function readAttachments(
  items: readonly Item[],
  cpu: ParsedCpu | undefined,
): (anchors: TrustAnchors) => Promise<JudgedAttachments> {
  const found = new Map<string, Judge>();
  const isCommitting = cpu && ["sev-snp", "tdx", "sgx"].includes(cpu.kind);
  for (const item of items) {
    const [name, read] = FORMATS.get(item.essence)!;
    need(isCommitting, "unsupported", "attachment-without-report-data", "sev-snp, tdx, sgx", cpu?.kind, {
      field: name,
    });
    need(!found.has(name), "malformed", "evidence-ambiguous", "one", name, { field: item.name });
    found.set(name, read(item));
  }
  return (anchors) => judgeAttachments(found, cpu!, anchors);
}

async function judgeAttachments(
  found: ReadonlyMap<string, Judge>,
  cpu: ParsedCpu,
  anchors: TrustAnchors,
): Promise<JudgedAttachments> {
  const claims: Record<string, Claims> = {};
  const checks: Check[] = [];
  const failures: AttestError[] = [];
  let simulated = false;
  for (const [name, judge] of found) {
    const verified = await refusalOf(() => judge(cpu, anchors));
    checks.push(...verified.checks);
    if (verified instanceof AttestError) failures.push(verified);
    else {
      claims[name] = verified.claims;
      simulated ||= verified.simulated ?? false;
    }
  }
  return { claims, checks, failures, simulated };
}
