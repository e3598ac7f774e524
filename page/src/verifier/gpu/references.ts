/**
 * Which RIM speaks for a device's driver, and which for its VBIOS or BIOS; whether it may; and whether the device measured
 * what it says.
 *
 * Edition, product and version decide; names and order of files say nothing. Several issues of one id can be at hand:
 * each is judged and compared as a whole, and values of two issues are never mixed.
 *
 * Spec: specs/nvidia-gpu.md, sections 8 to 10 and 12.
 */

import { hex, latin1, rfc3339 } from "../bytes";
import type { Told } from "../checks";
import { AttestError, need, refusal, refusalOf, refuse } from "../errors";
import type { Given } from "../formats";
import { type Status, requireNotRevoked } from "../ocsp";
import type { Certificate, Issuer } from "../x509";
import {
  type Attempt,
  type Step,
  decisionsOn,
  isSwitch,
  reasons,
  tellStatuses,
  tolerancesOf,
  tolerate,
  windowOf,
} from "./attempt";
import type { DeviceModel } from "./certificates";
import type { Root } from "./chain";
import { type References, SOURCES, type Source, compare, conflicts, isMatch, mismatches } from "./measurements";
import type { OpaqueData } from "./opaque";
import { type ParsedRim, findSigners, readRim } from "./rim";

/** Issues of one id that are looked at: NVIDIA signs anew about every two years. */
const MAX_ISSUES = 16;

/** One RIM and what is to be said of it. */
export interface JudgedRim {
  readonly parsed: ParsedRim;
  /** What it leads to, if its signature holds and its signers lead to a pinned root; perhaps outside its window. */
  readonly root?: Root;
  /** When all four certificates are valid: those of the root are the dates that are held, else those of the embedded one. */
  readonly window?: readonly [from: number, to: number];
  /** What is wrong with its signature, its chain and its window, and that it is not shown that no signer is revoked. */
  readonly failures: readonly [
    signature?: AttestError | undefined,
    chain?: AttestError | undefined,
    revocation?: AttestError | undefined,
  ];
  /** What shows that, for L4, L3 and L2; empty when nothing does. */
  readonly statuses: readonly Status[];
  /** It is stale, and that is tolerated: nothing rests on it. */
  isPutAside?: boolean;
}

/**
 * Version of what a RIM speaks for, as the report states it: a GPU writes that of its VBIOS in five of eight bytes
 * (`96.00.74.00.1A`), a switch that of its BIOS as text. `gpu-kind-mismatch`: the report is well formed, and not of what its
 * certificate says.
 */
export function versionOf(
  { bios, driverVersion }: OpaqueData,
  { kind }: DeviceModel,
  source: Source,
): string | undefined {
  if (kind === "nvidia-gpu" && source === "driver") return driverVersion;
  if (!bios) return undefined;
  const text =
    kind === "nvidia-gpu"
      ? bios.length === 8 && [3, 2, 1, 0, 4].map((i) => hex(bios.slice(i, i + 1)).toUpperCase()).join(".")
      : /^([ -~]+)\0*$/.exec(latin1(bios))?.[1];
  return text || refuse("binding", "gpu-kind-mismatch", kind, bios);
}

/** The RIMs that claim to be the wanted one; what cannot be read is passed over, and then missing. */
async function fittingRims(
  { kind, product }: DeviceModel,
  wanted: string,
  { rims }: Given["endorsements"],
): Promise<ParsedRim[]> {
  const version = wanted.toLowerCase();
  const fitting: ParsedRim[] = [];
  for (const document of rims) {
    // A RIM states its version in plain text, and reading every RIM for each device would be slow.
    if (fitting.length === MAX_ISSUES || !latin1(document.der).toLowerCase().includes(version)) continue;
    const rim = await refusalOf(() => readRim(document));
    if (rim instanceof AttestError) continue;
    if (
      kind === `nvidia-${rim.edition.toLowerCase()}` &&
      rim.product === product &&
      rim.version.toLowerCase() === version
    ) {
      fitting.push(rim);
    }
  }
  return fitting;
}

/**
 * The RIM, if NVIDIA said this and did not take it back, be it out of date: a measurement that differs from a stale RIM
 * is a finding all the same; one that equals it proves nothing, because being stale is a failure of its own.
 */
function comparable(judged: JudgedRim | undefined): ParsedRim | undefined {
  return judged?.root && judged.failures.every((failure) => !failure || failure.kind === "endorsement")
    ? judged.parsed
    : undefined;
}

/**
 * Judge every RIM that claims to be the wanted one and return the best; undefined when there is none.
 *
 * One good issue without a mismatch suffices. If none is good, one that is false is returned before one that is stale,
 * so that a missing endorsement hides nothing.
 */
async function chooseRim(
  attempt: Attempt,
  source: Source,
  version: string | undefined,
): Promise<JudgedRim | undefined> {
  const fitting = version === undefined ? [] : await fittingRims(attempt.model!, version, attempt.given.endorsements);
  const judged = await Promise.all(fitting.map((rim) => judge(rim, attempt)));
  const revocationTolerated = decisionsOn(attempt, "revocation").length;
  const rank = (rim: JudgedRim): number => {
    const codes = rim.failures.map((failure, i) =>
      !failure || (i === 2 && revocationTolerated && failure.kind === "endorsement") ? 9 : failure.exitCode,
    );
    const differs = mismatches(
      compare(attempt.evidence.report, { [source]: comparable(rim) }, tolerancesOf(attempt).waived),
    ).length;
    // The lower the exit code, the worse; the best has none.
    return (Math.min(...codes, 9) % 9) * 2 + +Boolean(differs);
  };
  return judged.sort((one, other) => rank(one) - rank(other))[0];
}

async function judge(parsed: ParsedRim, attempt: Attempt): Promise<JudgedRim> {
  const { anchors, at } = attempt.given;
  const signature = parsed.isSigned ? undefined : refusal("signature", "rim-signature-invalid", "valid", "another");
  const root = await refusalOf(() => findSigners(parsed, anchors));
  if (root instanceof AttestError) return { parsed, failures: [signature, root], statuses: [] };
  const signers = parsed.certificates.slice(0, 3);
  const window = windowOf([...signers, root.issuer]);
  const [from, to] = window;
  // Outside its window a RIM is a stale endorsement: NVIDIA issues the same id anew.
  const code = at < from ? "rim-not-yet-valid" : at > to && "rim-expired";
  const chain = code
    ? refusal("endorsement", code, window.map(rfc3339).join(" to "), rfc3339(at), { retryable: true })
    : undefined;
  if (signature) return { parsed, window, failures: [signature, chain], statuses: [] };
  const found = await refusalOf(() =>
    statusesOf(signers, root.issuer, attempt.given, tolerancesOf(attempt).heldRimSigners),
  );
  const [revocation, statuses] = found instanceof AttestError ? [found, []] : [undefined, found];
  return { parsed, root, window, failures: [signature, chain, revocation], statuses };
}

/**
 * Return what shows that none of L4, L3 and L2 is revoked. All three are looked at, so that a missing answer about one
 * hides no revocation of another.
 */
export async function statusesOf(
  certificates: readonly Certificate[],
  root: Issuer,
  { endorsements, at }: Given,
  hold?: string,
): Promise<Status[]> {
  const weighed = { answers: endorsements.ocsp, crls: endorsements.crls, at, hold };
  const found = await Promise.all(
    certificates.map((certificate, i) =>
      refusalOf(() => requireNotRevoked(certificate, certificates[i + 1] ?? root, weighed)),
    ),
  );
  throwWorst(found.filter((status) => status instanceof AttestError));
  return found as Status[];
}

/** Throw the refusal with the lowest exit code, the first of them; none of none. */
export function throwWorst(refused: readonly AttestError[]): void {
  const [worst] = [...refused].sort((a, b) => a.exitCode - b.exitCode);
  if (worst) throw worst;
}

// -- the checks

/** The four checks of one RIM. A switch has no driver. */
function rimSteps(source: Source): readonly Step[] {
  const step = (
    i: number,
    name: string,
    clause: string,
    ready: keyof JudgedRim,
    tolerated: readonly string[],
    tell: (rim: JudgedRim, attempt: Attempt) => Told,
  ): Step => [
    `${source}_rim_${name}`,
    clause,
    ({ rims }) => rims[source]?.[ready],
    (attempt) => {
      const rim = attempt.rims[source]!;
      const failure = rim.failures[i];
      if (!failure) return tell(rim, attempt);
      if (tolerate(attempt, failure, ...tolerated) === "rim") rim.isPutAside = true;
      return ["valid", reasons(attempt), "not evaluated"];
    },
  ];
  return [
    [
      `${source}_rim`,
      "nvidia-gpu.md 9.2, 12",
      (attempt) => attempt.model && !(isSwitch(attempt) && source === "driver"),
      async (attempt) => {
        const { model, evidence, rims } = attempt;
        const version = versionOf(evidence.report.opaque, model!, source);
        const wanted = `${model!.product} ${source} ${version ?? "none"}`;
        const rim = await chooseRim(attempt, source, version);
        if (rim) return [wanted, (rims[source] = rim).parsed.sha256];
        tolerate(attempt, refusal("endorsement", "gpu-rim-missing", wanted, "none", { retryable: true }), "rim");
        return [wanted, reasons(attempt), "not evaluated"];
      },
    ],
    step(0, "signature", "W3C XML Signature; nvidia-gpu.md 9.3", "parsed", [], ({ parsed }) => [
      "valid",
      parsed.certificates[0]!.name,
    ]),
    step(1, "chain", "nvidia-gpu.md 9.4", "parsed", ["rim"], ({ window }) => ["valid", window!.map(rfc3339)]),
    step(2, "revocation", "RFC 6960; nvidia-gpu.md 8", "root", ["revocation", "rim"], ({ statuses }, attempt) =>
      tellStatuses(attempt, statuses),
    ),
  ];
}

const comparables = ({ rims }: Attempt): References => ({
  driver: comparable(rims.driver),
  vbios: comparable(rims.vbios),
});

/** Compare with what NVIDIA said, be it stale; rely only on what is current. */
function measured(attempt: Attempt): Told {
  const expected = "reference values";
  const results = compare(attempt.evidence.report, comparables(attempt), tolerancesOf(attempt).waived);
  const differing = mismatches(results).map(({ index, source }) => `${index} (${source})`);
  need(!differing.length, "verification", "gpu-measurement-mismatch", expected, differing);
  const usable = results.filter(({ source }) => !attempt.rims[source]!.isPutAside);
  if (!usable.length) return [expected, reasons(attempt), "not evaluated"];
  attempt.comparison = usable;
  const waived = usable.filter(({ reason }) => reason).map(({ index, reason }) => `; ${index}: ${reason}`);
  return [
    expected,
    `${usable.filter(isMatch).length} of ${usable.length} match${waived.join("")}`,
    waived.length ? "warning" : "pass",
  ];
}

/** Whether the device measured what NVIDIA published, in order. */
export const REFERENCE_STEPS: readonly Step[] = [
  ...SOURCES.flatMap(rimSteps),
  [
    "rim_conflict",
    "nvidia-gpu.md 10",
    ({ rims }) => comparable(rims.driver) && comparable(rims.vbios),
    (attempt) => {
      const found = conflicts(comparables(attempt));
      need(!found.length, "verification", "gpu-rim-conflict", "no index in both", found);
      return ["no index in both", "none"];
    },
  ],
  ["measurements", "nvidia-gpu.md 10", ({ rims }) => comparable(rims.driver) ?? comparable(rims.vbios), measured],
];
