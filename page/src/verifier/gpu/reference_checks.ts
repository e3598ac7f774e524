/** Steps about RIMs, in order: compare the device's measurements with NVIDIA's reference values. */

import { rfc3339 } from "../bytes";
import { type AttestError, need, refusal, refuse } from "../errors";
import { isSwitch, type PresentedDevice, tolerancesOf } from "./presented";
import type { Decisions } from "./decisions";
import { differencesText } from "./differences";
import { type Comparison, type Source, compare, conflicts, isMatch, mismatches } from "./measurements";
import { type JudgedRim, chooseRim, comparable, comparables, tellStatuses, versionOf } from "./references";
import type { GpuProcedure } from "./steps";

/** The RIM of one source, if there is one. */
export interface RimOfSource {
  readonly rim: JudgedRim | undefined;
  /** It is stale, and that is tolerated: nothing rests on it. */
  readonly isPutAside: boolean;
}

export type RimsBySource = Readonly<Record<Source, RimOfSource>>;

/** Take the four steps of one RIM. A switch has no driver. */
export async function judgeRim(
  procedure: GpuProcedure,
  source: Source,
  presented: PresentedDevice,
  decisions: Decisions,
): Promise<RimOfSource> {
  const rim = await findRim(procedure, source, presented, decisions);
  const failures = rim?.failures;
  await procedure.attempt(`${source}_rim_signature`, (step) => {
    const { parsed } = step.need(rim, decisions.lacking());
    if (failures?.signature) throw failures.signature;
    step.tell("a valid XML signature", `verifies with ${parsed.certificates[0]?.name ?? "no CN"}`);
  });
  const staleChain = await procedure.attempt(`${source}_rim_chain`, (step) => {
    const { window = [] } = step.need(rim, decisions.lacking());
    if (!failures?.chain) {
      step.tell("a pinned root, and valid certificates", window.map(rfc3339).join(" to "));
      return undefined;
    }
    const name = decisions.tolerate(failures.chain, "rim");
    step.tell("a pinned root, and valid certificates", decisions.reasons(), "not evaluated");
    return name;
  });
  const unknownStatus = await procedure.attempt(`${source}_rim_revocation`, (step) => {
    step.need(rim?.root, decisions.lacking());
    const held = tolerancesOf(presented).heldRimSigners;
    if (!failures?.revocation) {
      step.tell(...tellStatuses(rim?.statuses ?? [], decisions, held));
      return undefined;
    }
    const name = decisions.tolerate(failures.revocation, "revocation", "rim");
    step.tell("good", decisions.reasons(), "not evaluated");
    return name;
  });
  return { rim, isPutAside: staleChain === "rim" || unknownStatus === "rim" };
}

async function findRim(
  procedure: GpuProcedure,
  source: Source,
  presented: PresentedDevice,
  decisions: Decisions,
): Promise<JudgedRim | undefined> {
  const model = modelOf(presented);
  const applies = model && !(isSwitch(model) && source === "driver") ? model : undefined;
  const { opaque } = presented.evidence.report;
  return procedure.attempt(`${source}_rim`, async (step) => {
    const ofDevice = step.need(applies, decisions.lacking());
    const version = versionOf(opaque, ofDevice, source);
    const wanted = `${ofDevice.product} ${source} ${version ?? "none"}`;
    const rim = version === undefined ? undefined : await chooseRim(presented, ofDevice, source, version);
    if (rim) step.tell(wanted, `SHA-256 ${rim.parsed.sha256}`);
    else {
      decisions.tolerate(missingRim(wanted), "rim");
      step.tell(wanted, decisions.reasons(), "not evaluated");
    }
    return rim;
  });
}

const modelOf = ({ model }: PresentedDevice) => (model && "product" in model ? model : undefined);

const missingRim = (wanted: string): AttestError =>
  refusal("endorsement", "gpu-rim-missing", wanted, "none", { retryable: true });

/** Require that no index is active in both RIMs. */
export async function findConflicts(procedure: GpuProcedure, rims: RimsBySource, decisions: Decisions): Promise<void> {
  await procedure.attempt("rim_conflict", (step) => {
    step.need(comparable(rims.driver.rim), decisions.lacking());
    step.need(comparable(rims.vbios.rim), decisions.lacking());
    const found = conflicts(comparables(rims));
    need(!found.length, "verification", "gpu-rim-conflict", "no index in both RIMs", found);
    step.tell("no index in both RIMs", "none");
  });
}

/** Compare with what NVIDIA said, be it stale; rely only on what is current. */
export function compareWithRims(
  procedure: GpuProcedure,
  presented: PresentedDevice,
  rims: RimsBySource,
  decisions: Decisions,
): Promise<readonly Comparison[] | undefined> {
  return procedure.attempt("measurements", async (step) => {
    step.need(comparable(rims.driver.rim) ?? comparable(rims.vbios.rim), decisions.lacking());
    const expected = "every active reference value of NVIDIA's RIMs";
    const results = compare(presented.evidence.report, comparables(rims), tolerancesOf(presented).waived);
    const differing = mismatches(results);
    if (differing.length) {
      const got = `others at ${await differencesText(differing, presented)}`;
      refuse("verification", "gpu-measurement-mismatch", expected, got);
    }
    const relied = results.filter(({ source }) => !rims[source].isPutAside);
    if (!relied.length) {
      step.tell(expected, decisions.reasons(), "not evaluated");
      return undefined;
    }
    const waived = relied.filter(({ reason }) => reason).map(({ index, reason }) => `; ${index}: ${reason ?? ""}`);
    const got = `${relied.filter(isMatch).length} of ${relied.length} match${waived.join("")}`;
    step.tell(expected, got, waived.length ? "warning" : "pass");
    return relied;
  });
}
