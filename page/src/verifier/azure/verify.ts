/**
 * Is this evidence of an Azure confidential VM genuine? Checks A01 to A08 of azure-cvm.md, but for the nonce.
 *
 *     nonce, PCR values ── TPM quote ── AK in the runtime claims ── REPORT_DATA of the CPU's report ── AMD or Intel
 *
 * The chain is walked from its anchor outwards, and no link is used before the one that vouches for it was found to
 * hold. A missing endorsement of the CPU's report alone does not end the walk, so that evidence that is plainly false is
 * called false; nothing is verified then all the same.
 */

import { type Bytes, equal, hex, padded } from "../bytes";
import { type Check, check } from "../checks";
import { nestedClaims } from "../claims";
import { AttestError, fail, refusalOf } from "../errors";
import type { Given, ParsedCpu, Verified } from "../formats";
import { verifySnp } from "../snp/verify";
import { type PcrValues, type TpmQuote, parseTpmQuote, requirePcrValues, requireTpmSignature } from "../tpm/quote";
import type { AzureEvidence } from "./forms";
import { type RuntimeClaims, parseRuntimeClaims } from "./runtime";
import { TD_INFO_BYTES, runtimeDigest, tdInfo, tdReportData } from "./structure";

/** Where TDATTRIBUTES stands in a TD report body, and the body in a quote of version 4 and 5 (intel-tdx-sgx.md 3). */
const [TD_INFO_OFFSET, BODY_OFFSET, BODY_OFFSET_5] = [120, 48, 54];

/** One piece of evidence, with what was found so far. */
interface Walk {
  readonly evidence: AzureEvidence;
  digest: Bytes;
  runtime: RuntimeClaims;
  quote: TpmQuote;
  pcrs: PcrValues;
}

interface WalkStep {
  readonly id: string;
  readonly clause: string;
  run(walk: Walk): void | Promise<void>;
  tell(walk: Walk): readonly [expected: string, got: string];
  applies?(evidence: AzureEvidence): boolean;
}

function reportDataOf({ snp, td }: AzureEvidence): Bytes {
  return snp?.report.report_data ?? td?.parsed.reportData ?? new Uint8Array();
}

async function orNothing<T>(read: () => T | Promise<T>): Promise<T | undefined> {
  const found = await refusalOf(read);
  return found instanceof AttestError ? undefined : found;
}

/** Make evidence ready for comparisons before verification; what cannot be read is refused by the procedure. */
export async function azureCpu(evidence: AzureEvidence): Promise<ParsedCpu> {
  const quote = await orNothing(() => parseTpmQuote(evidence.tpm.message));
  const runtime = await orNothing(() => parseRuntimeClaims(evidence.hcl.runtimeData));
  const pcrs = quote && (await orNothing(() => requirePcrValues(quote, evidence.tpm.pcrs)));
  return {
    kind: evidence.td ? "azure-tdx" : "azure-snp",
    reportData: runtime?.userData ?? new Uint8Array(),
    nonce: quote?.extraData ?? new Uint8Array(),
    registers: { log: "tcg2-sha256", values: new Map((pcrs ?? []).map(([index, value]) => [`PCR${index}`, value])) },
    verify: (given) => verifyAzure(evidence, given),
  };
}

async function verifyAzure(evidence: AzureEvidence, given: Given): Promise<Verified> {
  const steps = PROCEDURE.filter(({ applies }) => !applies || applies(evidence));
  const walk = { evidence } as Walk;
  // (1) A08: the CPU's report.
  const cpu = await refusalOf<Verified>(() => (evidence.snp ? verifySnp(evidence.snp, given) : (evidence.td ?? noCpu()).parsed.verify(given)));
  const missing = cpu instanceof AttestError ? cpu : undefined;
  const told: readonly Check[] = [...cpu.checks, FORMAT];
  if (missing && missing.kind !== "endorsement") throw withChecks(missing, told, steps, -1);
  // (2) A03, A02, A04, A05, A07: what it vouches for. Each step stands on the one before.
  for (const [number, step] of steps.entries()) {
    try {
      await step.run(walk);
    } catch (error) {
      if (!(error instanceof AttestError)) throw error;
      error.facts.check = step.id;
      error.facts.clause ??= step.clause;
      throw withChecks(error, told, steps, number);
    }
  }
  // (3) What is missing counts when nothing is false.
  if (cpu instanceof AttestError) throw withChecks(cpu, told, steps, -1);
  const passed = steps.map((step) => check(step.id, "pass", ...step.tell(walk), step.clause));
  const kind = evidence.td ? "azure-tdx" : "azure-snp";
  return { kind, simulated: cpu.simulated, checks: [...told, ...passed], claims: claimsOf(walk, cpu), chain: cpu.chain };
}

function noCpu(): never {
  return fail("malformed", "azure-form-malformed", "neither an SNP report nor a TD quote");
}

/** Tell the steps up to the failed one; when the CPU's report is what failed, none of them counts as passed. */
function withChecks(error: AttestError, told: readonly Check[], steps: readonly WalkStep[], failed: number): AttestError {
  const { expected = "", got = error.message } = error.facts;
  error.checks = [
    ...told,
    ...steps.map(({ id, clause }, number) => {
      if (number < failed) return check(id, "pass", "", "holds", clause);
      if (number === failed) return check(id, "fail", expected, got, clause);
      return check(id, "not evaluated", "", "an earlier check failed", clause);
    }),
  ];
  return error;
}

const FORMAT = check(
  "azure.format",
  "pass",
  "an HCL report of a known version, sizes that agree, every other byte zero",
  "as expected",
  "azure-cvm.md A01",
);

function compare(code: string, field: string, wanted: Bytes, got: Bytes, problem: string): void {
  if (!equal(wanted, got)) fail("binding", code, problem, { field, expected: hex(wanted), got: hex(got) });
}

const PROCEDURE: readonly WalkStep[] = [
  {
    // Whoever sits at VMPL 1 or above is the paravisor's guest.
    id: "azure.vmpl",
    clause: "azure-cvm.md A08, 6",
    applies: ({ snp }) => snp !== undefined,
    run: ({ evidence }) => {
      const vmpl = evidence.snp?.report.vmpl;
      if (vmpl !== 0) {
        const facts = { field: "VMPL", offset: 0x30, expected: "0", got: `${vmpl}` };
        fail("verification", "azure-vmpl-unexpected", "", facts);
      }
    },
    tell: () => ["VMPL 0", "VMPL 0"],
  },
  {
    id: "azure.runtime_data",
    clause: "azure-cvm.md A03",
    run: async (walk) => {
      const { evidence } = walk;
      walk.digest = await runtimeDigest(evidence.hcl);
      const problem = "REPORT_DATA does not commit to the runtime claims";
      compare("azure-runtime-data-mismatch", "REPORT_DATA", walk.digest, reportDataOf(evidence), problem);
      if (evidence.td) compare("azure-runtime-data-mismatch", "REPORTDATA of the TDREPORT", walk.digest, tdReportData(evidence.hcl), problem);
    },
    tell: ({ digest }) => ["the digest of the runtime claims in REPORT_DATA", hex(digest)],
  },
  {
    // Only the quote is signed, and a splice is no honest mistake.
    id: "azure.td_report",
    clause: "azure-cvm.md 4",
    applies: ({ td }) => td !== undefined,
    run: ({ evidence }) => {
      const raw = evidence.td?.raw ?? new Uint8Array();
      const start = (raw[0] === 5 ? BODY_OFFSET_5 : BODY_OFFSET) + TD_INFO_OFFSET;
      const problem = "the TDREPORT in the HCL report and the TD quote are of different TDs";
      compare("azure-td-report-mismatch", "TDINFO", raw.slice(start, start + TD_INFO_BYTES), tdInfo(evidence.hcl), problem);
    },
    tell: () => ["TDREPORT and quote of one TD", `${TD_INFO_BYTES} bytes of TDINFO agree`],
  },
  {
    id: "azure.claims",
    clause: "azure-cvm.md A02",
    run: (walk) => {
      walk.runtime = parseRuntimeClaims(walk.evidence.hcl.runtimeData);
    },
    tell: ({ runtime }) => ["one attestation key, RSA of 2048 bits or more", `RSA of ${runtime.akBits} bits`],
  },
  {
    id: "azure.tpm_signature",
    clause: "azure-cvm.md A04",
    run: ({ evidence: { tpm }, runtime }) => requireTpmSignature(tpm.message, tpm.signature, runtime.ak),
    tell: ({ evidence }) => ["the attestation key of the runtime claims over the whole quote", `verifies over ${evidence.tpm.message.length} bytes`],
  },
  {
    id: "azure.tpm_quote",
    clause: "TPM 2.0 Library, part 2, TPMS_ATTEST; azure-cvm.md A05",
    run: (walk) => {
      walk.quote = parseTpmQuote(walk.evidence.tpm.message);
    },
    tell: ({ quote }) => ["a quote made by a TPM, nothing left over", `reset ${quote.resetCount}`],
  },
  {
    // From version 2 on the form says that both places carry the same; one that does not is another's user data.
    id: "azure.user_data",
    clause: "azure-cvm.md 9",
    applies: ({ version }) => version > 1,
    run: ({ quote, runtime }) => {
      const problem = "the user data among the runtime claims does not repeat the quote's extraData";
      compare("azure-user-data-mismatch", "user-data", padded(quote.extraData, 64), runtime.userData ?? new Uint8Array(), problem);
    },
    tell: ({ runtime }) => ["the quote's extraData, then zeros", hex(runtime.userData ?? new Uint8Array())],
  },
  {
    id: "azure.pcr_digest",
    clause: "azure-cvm.md A07",
    run: async (walk) => {
      walk.pcrs = await requirePcrValues(walk.quote, walk.evidence.tpm.pcrs);
    },
    tell: ({ quote, pcrs }) => [`SHA-256 bank, digest ${hex(quote.pcrDigest)}`, `${pcrs.length} values have this digest`],
  },
];

/** The guest's registers first, the CPU's report last. */
function claimsOf({ evidence, runtime, quote, pcrs }: Walk, cpu: Verified): Verified["claims"] {
  const unknown = Object.keys(runtime.unknown).length ? runtime.unknown : undefined;
  const configuration = Object.keys(runtime.vmConfiguration).length ? runtime.vmConfiguration : undefined;
  const own = nestedClaims({
    pcrs: Object.fromEntries(pcrs),
    vm_configuration: configuration,
    user_data: runtime.userData,
    tpm: {
      extra_data: quote.extraData,
      clock: quote.clock,
      reset_count: quote.resetCount,
      restart_count: quote.restartCount,
      safe: quote.safe,
      firmware_version: quote.firmwareVersion,
      qualified_signer: quote.qualifiedSigner,
    },
    hcl: { version: evidence.hcl.version },
    unknown_claims: unknown,
  });
  return { ...own, [evidence.td ? "tdx" : "snp"]: cpu.claims };
}
