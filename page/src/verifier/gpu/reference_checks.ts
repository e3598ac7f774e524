/**
 * The checks of a device's measurements: which RIMs speak for it, whether they may, and whether they agree with it.
 *
 * Spec: specs/nvidia-gpu.md, sections 8 to 10 and 12.
 */

import { rfc3339 } from "../bytes";
import { AttestError, fail, refusalOf } from "../errors";
import { type Attempt, type Step, tellStatuses, there } from "./attempt";
import { type Result, type Source, compare, conflicts, mismatches } from "./measurements";
import { chooseRim, wantedRim } from "./references";
import type { ParsedRim } from "./rim";

async function findRim(attempt: Attempt, source: Source): Promise<void> {
  const model = there(attempt.model);
  const { report } = attempt.evidence;
  const wanted = await refusalOf(() => wantedRim(report, model, source));
  if (wanted instanceof AttestError) {
    // The report is well formed, and not of what its certificate says.
    const { field, expected, got } = wanted.facts;
    const problem = `the report does not write its version as an ${model.kind} does`;
    return fail("binding", "gpu-kind-mismatch", problem, { field, expected, got });
  }
  attempt.wanted.set(source, wanted);
  const { endorsements, anchors, at } = attempt.given;
  const judged = await chooseRim(wanted, report, {
    pool: endorsements,
    anchors,
    at,
    waived: attempt.tolerances.waived ?? new Map(),
    hold: attempt.tolerances.heldRimSigners,
    revocationTolerated: attempt.allows("revocation").length > 0,
  });
  if (judged) attempt.rims.set(source, judged);
  else {
    const facts = { expected: wanted.text, got: "none", retryable: true };
    attempt.tolerate(new AttestError("endorsement", "gpu-rim-missing", `${wanted.text} is not at hand`, facts), "rim");
  }
}

function lacksModel(attempt: Attempt, source: Source): string | undefined {
  return attempt.model ? noDriver(attempt, source) : "it is not known what device this is";
}

function noDriver({ isSwitch }: Attempt, source: Source): string | undefined {
  return isSwitch && source === "driver" ? "a switch has no driver" : undefined;
}

function lacksRim(attempt: Attempt, source: Source): string | undefined {
  return noDriver(attempt, source) ?? (attempt.rims.has(source) ? undefined : "there is no such RIM");
}

function lacksSigners(attempt: Attempt, source: Source): string | undefined {
  const missing = lacksRim(attempt, source);
  if (missing !== undefined || attempt.rims.get(source)?.verified) return missing;
  return "its signature or its chain does not hold";
}

/** The four checks of one RIM. */
function rimSteps(source: Source): readonly Step[] {
  const judgedOf = (attempt: Attempt) => there(attempt.rims.get(source));
  return [
    {
      id: `nvidia.${source}_rim`,
      clause: "nvidia-gpu.md 9.2, 12",
      lacks: (attempt) => lacksModel(attempt, source),
      run: (attempt) => findRim(attempt, source),
      tell: (attempt) => {
        const { text } = there(attempt.wanted.get(source));
        const judged = attempt.rims.get(source);
        return judged ? [text, `SHA-256 ${judged.parsed.sha256}`] : [text, attempt.reasons("rim"), "not evaluated"];
      },
    },
    {
      id: `nvidia.${source}_rim_signature`,
      clause: "W3C XML Signature; nvidia-gpu.md 9.3",
      lacks: (attempt) => lacksRim(attempt, source),
      run: (attempt) => {
        const { signature } = judgedOf(attempt);
        if (signature) throw signature;
      },
      tell: (attempt) => {
        const signer = there(judgedOf(attempt).parsed.certificates[0]);
        return ["an XML signature over the whole document", `verifies with ${signer.name}, serial 0x${signer.serial.toString(16)}`];
      },
    },
    {
      id: `nvidia.${source}_rim_chain`,
      clause: "nvidia-gpu.md 9.4",
      lacks: (attempt) => lacksRim(attempt, source),
      run: (attempt) => {
        const { chain } = judgedOf(attempt);
        if (!chain) return;
        attempt.tolerate(chain, "rim");
        attempt.putAside.add(source);
      },
      tell: (attempt) => {
        const { chain, parsed } = judgedOf(attempt);
        const expected = "signers that lead to a pinned NVIDIA CoRIM signing Root CA, all valid";
        if (chain) return [expected, attempt.reasons("rim"), "not evaluated"];
        const names = parsed.certificates.map((certificate) => certificate.name).join(" < ");
        const first = Math.max(...parsed.certificates.map((certificate) => certificate.notBefore));
        const last = Math.min(...parsed.certificates.map((certificate) => certificate.notAfter));
        return [expected, `${names}, ${rfc3339(first)} to ${rfc3339(last)}`];
      },
    },
    {
      id: `nvidia.${source}_rim_revocation`,
      clause: "RFC 6960; nvidia-gpu.md 8",
      lacks: (attempt) => lacksSigners(attempt, source),
      run: (attempt) => {
        const { revocation } = judgedOf(attempt);
        if (revocation && attempt.tolerate(revocation, "revocation", "rim") === "rim") attempt.putAside.add(source);
      },
      tell: (attempt) => {
        const { parsed, statuses } = judgedOf(attempt);
        const name = attempt.allows("revocation").length ? "revocation" : "rim";
        return tellStatuses(attempt, parsed.certificates.slice(0, 3), statuses, name);
      },
    },
  ];
}

// -- the comparison

function rimConflict(attempt: Attempt): void {
  const got = conflicts(attempt.comparable("driver"), attempt.comparable("vbios")).join(", ");
  if (!got) return;
  const problem = `both RIMs have reference values for the same measurements: ${got}`;
  fail("verification", "gpu-rim-conflict", problem, { expected: "no index in both RIMs", got });
}

/** Compare with what NVIDIA said, be it stale; rely only on what is current. */
function measurements(attempt: Attempt): void {
  const comparison = compared(attempt, attempt.comparable("driver"), attempt.comparable("vbios"));
  const differing = mismatches(comparison);
  if (differing.length) throw mismatch(differing);
  const [driver, vbios] = [attempt.usable("driver"), attempt.usable("vbios")];
  if (driver || vbios) attempt.comparison = compared(attempt, driver, vbios);
}

function compared(attempt: Attempt, driver: ParsedRim | undefined, vbios: ParsedRim | undefined): Result[] {
  return compare(attempt.evidence.report, { driver, vbios }, attempt.tolerances.waived);
}

function mismatch(differing: readonly Result[]): AttestError {
  const alternatives = (result: Result): string => result.expected.join(" or ");
  const found = (result: Result): string => result.got ?? "nothing, the report has no such index";
  const list = differing.map((result) => `${result.index} (${result.source})`).join(", ");
  return new AttestError("verification", "gpu-measurement-mismatch", `measurements differ from the RIMs: ${list}`, {
    field: `measurements[${differing[0]?.index}]`,
    expected: differing.map((result) => `${result.index} (${result.source}): ${alternatives(result)}`).join("; "),
    got: differing.map((result) => `${result.index}: ${found(result)}`).join("; "),
  });
}

function lacksAnyRim(attempt: Attempt): string | undefined {
  if (attempt.comparable("driver") || attempt.comparable("vbios")) return undefined;
  return attempt.used.has("rim") ? attempt.reasons("rim") : "there is no RIM that could be compared";
}

/** Whether the device measured what NVIDIA published, in order. */
export const REFERENCE_STEPS: readonly Step[] = [
  ...rimSteps("driver"),
  ...rimSteps("vbios"),
  {
    id: "nvidia.rim_conflict",
    clause: "nvidia-gpu.md 10",
    lacks: (attempt) => {
      const both = attempt.comparable("driver") && attempt.comparable("vbios");
      return both ? undefined : "there are not two RIMs that could contradict each other";
    },
    run: rimConflict,
    tell: () => ["no index in both RIMs", "none"],
  },
  {
    id: "nvidia.measurements",
    clause: "nvidia-gpu.md 10",
    lacks: lacksAnyRim,
    run: measurements,
    tell: (attempt) => {
      const { comparison } = attempt;
      if (!comparison) return ["every measurement one of its reference values", attempt.reasons("rim"), "not evaluated"];
      const got = `${comparison.filter((result) => result.matched).length} of ${comparison.length} match`;
      const expected = `${comparison.length} measurements, each one of its reference values`;
      const waived = comparison.filter((result) => result.waived !== undefined);
      if (!waived.length) return [expected, got];
      const listed = waived.map((result) => `${result.index} (${result.source}): ${result.waived}`).join("; ");
      return [expected, `${got}; waived: ${listed}`, "warning"];
    },
  },
];
