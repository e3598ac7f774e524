/**
 * The checks of a device's measurements: which RIMs speak for it, whether they may, and whether they agree with it.
 *
 * Spec: specs/nvidia-gpu.md, sections 8 to 10 and 12.
 */

import { AttestError, refusal, refusalOf } from "../errors";
import { type Attempt, type Step, names, signerText, tellStatuses, there, window } from "./attempt";
import { type Result, type Source, compare, conflicts, mismatches } from "./measurements";
import { type JudgedRim, chooseRim, wantedRim } from "./references";

async function findRim(attempt: Attempt, source: Source): Promise<void> {
  const { model, evidence, given, tolerances } = attempt;
  const wanted = await refusalOf(() => wantedRim(evidence.report, there(model), source));
  if (wanted instanceof AttestError) {
    // The report is well formed, and not of what its certificate says.
    throw new AttestError("binding", "gpu-kind-mismatch", "", wanted.facts);
  }
  attempt.wanted.set(source, wanted);
  const judged = await chooseRim(wanted, evidence.report, {
    pool: given.endorsements,
    anchors: given.anchors,
    at: given.at,
    waived: tolerances.waived,
    hold: tolerances.heldRimSigners,
    revocationTolerated: attempt.allows("revocation").length > 0,
  });
  if (judged) attempt.rims.set(source, judged);
  else attempt.tolerate(refusal("endorsement", "gpu-rim-missing", wanted.text, "none", { retryable: true }), "rim");
}

/** The four checks of one RIM. A switch has no driver. */
function rimSteps(source: Source): readonly Step[] {
  const judgedOf = ({ rims }: Attempt): JudgedRim => there(rims.get(source));
  const id = `${source}_rim`;
  const isThere = ({ rims }: Attempt): unknown => rims.get(source);
  return [
    [
      id,
      "nvidia-gpu.md 9.2, 12",
      ({ model, isSwitch }) => model && !(isSwitch && source === "driver"),
      (attempt) => findRim(attempt, source),
      (attempt) => {
        const { text } = there(attempt.wanted.get(source));
        const judged = attempt.rims.get(source);
        return judged ? [text, `SHA-256 ${judged.parsed.sha256}`] : [text, attempt.reasons(), "not evaluated"];
      },
    ],
    [
      `${id}_signature`,
      "W3C XML Signature; nvidia-gpu.md 9.3",
      isThere,
      (attempt) => {
        const { signature } = judgedOf(attempt);
        if (signature) throw signature;
      },
      (attempt) => ["an XML signature over the whole document", signerText(there(judgedOf(attempt).parsed.certificates[0]))],
    ],
    [
      `${id}_chain`,
      "nvidia-gpu.md 9.4",
      isThere,
      (attempt) => {
        const { chain } = judgedOf(attempt);
        if (!chain) return;
        attempt.tolerate(chain, "rim");
        attempt.putAside.add(source);
      },
      (attempt) => {
        const { chain, parsed } = judgedOf(attempt);
        const expected = "signers that lead to a pinned NVIDIA root, all valid";
        if (chain) return [expected, attempt.reasons(), "not evaluated"];
        return [expected, `${names(parsed.certificates)}, ${window(parsed.certificates)}`];
      },
    ],
    [
      `${id}_revocation`,
      "RFC 6960; nvidia-gpu.md 8",
      ({ rims }) => rims.get(source)?.verified,
      (attempt) => {
        const { revocation } = judgedOf(attempt);
        if (revocation && attempt.tolerate(revocation, "revocation", "rim") === "rim") attempt.putAside.add(source);
      },
      (attempt) => {
        const { parsed, statuses } = judgedOf(attempt);
        return tellStatuses(attempt, parsed.certificates.slice(0, 3), statuses);
      },
    ],
  ];
}

// -- the comparison

function rimConflict(attempt: Attempt): void {
  const got = conflicts(attempt.comparable("driver"), attempt.comparable("vbios")).join(", ");
  if (got) throw refusal("verification", "gpu-rim-conflict", "no index in both RIMs", got);
}

/** Compare with what NVIDIA said, be it stale; rely only on what is current. */
function measurements(attempt: Attempt): void {
  const { evidence, tolerances } = attempt;
  const sources = ["driver", "vbios"] as const;
  const [stale, usable] = [sources.map((source) => attempt.comparable(source)), sources.map((source) => attempt.usable(source))];
  const compared = ([driver, vbios]: typeof stale): Result[] => compare(evidence.report, { driver, vbios }, tolerances.waived);
  const differing = mismatches(compared(stale));
  const [first] = differing;
  if (first) {
    const tell = (of: (result: Result) => string): string => differing.map((result) => `${result.index} (${result.source}): ${of(result)}`).join("; ");
    const [expected, got] = [tell((result) => result.expected.join(" or ")), tell((result) => result.got ?? "no such index")];
    throw refusal("verification", "gpu-measurement-mismatch", expected, got, { field: `measurements[${first.index}]` });
  }
  if (usable.some(Boolean)) attempt.comparison = compared(usable);
}

/** Whether the device measured what NVIDIA published, in order. */
export const REFERENCE_STEPS: readonly Step[] = [
  ...rimSteps("driver"),
  ...rimSteps("vbios"),
  [
    "rim_conflict",
    "nvidia-gpu.md 10",
    (attempt) => attempt.comparable("driver") && attempt.comparable("vbios"),
    rimConflict,
    () => ["no index in both RIMs", "none"],
  ],
  [
    "measurements",
    "nvidia-gpu.md 10",
    (attempt) => attempt.comparable("driver") ?? attempt.comparable("vbios"),
    measurements,
    (attempt) => {
      const { comparison } = attempt;
      const expected = "every measurement one of its reference values";
      if (!comparison) return [expected, attempt.reasons(), "not evaluated"];
      const got = `${comparison.filter((result) => result.matched).length} of ${comparison.length} match`;
      const waived = comparison.filter((result) => result.waived !== undefined);
      if (!waived.length) return [expected, got];
      return [expected, `${got}; waived: ${waived.map((result) => `${result.index}: ${result.waived}`).join("; ")}`, "warning"];
    },
  ],
];
