/**
 * Verification that evidence of an Azure confidential VM is genuine. A01 to A08 of azure-cvm.md, except the nonce.
 *
 *     nonce, PCR values ── TPM quote ── AK in the runtime claims ── REPORT_DATA of the CPU's report ── AMD or Intel
 *
 * The chain is walked from its anchor outwards, and no link is used before the one that authenticates it was found to
 * hold. A missing endorsement of the CPU's report alone does not end the walk, so that evidence that is plainly false
 * is called false; nothing is verified then all the same.
 */

import { type Bytes, NO_BYTES, hex, padded } from "../bytes";
import { type Check, check } from "../checks";
import { schemeHolds } from "../crypto";
import { AttestError, need, refusalOf } from "../errors";
import type { Given, ParsedCpu, Verified } from "../evidence";
import { Procedure, same } from "../procedure";
import { type PcrValues, parseTpmQuote, requirePcrValues } from "../tpm/quote";
import { type VerifiedMachine, azureClaims } from "./claims";
import { type AzureEvidence, parseAzureEvidence } from "./forms";
import { type RuntimeClaims, parseRuntimeClaims } from "./runtime";
import { tdInfo, tdReportData } from "./structure";

/** Every check of the VM's own evidence, in order; those of the CPU's report stand in front of them. */
const AZURE_STEPS = {
  vmpl: ["azure.vmpl", "AMD 56860, VMPL"],
  runtimeData: ["azure.runtime_data", "Microsoft Azure, guest attestation, report data"],
  tdReport: ["azure.td_report", "Intel TDX DCAP, TDREPORT; docs/azure.md"],
  claims: ["azure.claims", "Microsoft Azure, guest attestation, runtime claims"],
  tpmSignature: ["azure.tpm_signature", "TPM 2.0 Library, part 1, signing; RFC 8017, 8.2.2"],
  tpmQuote: ["azure.tpm_quote", "TPM 2.0 Library, part 2, TPMS_ATTEST"],
  userData: ["azure.user_data", "docs/azure.md"],
  pcrDigest: ["azure.pcr_digest", "TPM 2.0 Library, part 2, TPMS_QUOTE_INFO"],
} as const;

type AzureSteps = Partial<typeof AZURE_STEPS>;
type AzureProcedure = Procedure<typeof AZURE_STEPS>;

/** The TPM signs with RSA and SHA-256. */
const TPM_SCHEME = "RSASSA-PKCS1-v1_5";
/** Offset of TDATTRIBUTES in a quote, by its version (intel-tdx-sgx.md 3). */
const TD_INFO_OFFSETS: Readonly<Record<number, number>> = { 4: 168, 5: 174 };
const USER_DATA_BYTES = 64;

/**
 * Read evidence, ready for comparisons before verification; a quote or claims that cannot be read are refused by the
 * procedure.
 */
export async function readAzure(value: Bytes): Promise<ParsedCpu> {
  const evidence = await parseAzureEvidence(value);
  const { hcl, tpm } = evidence;
  const runtime = await refusalOf(() => parseRuntimeClaims(hcl.runtimeData));
  const quote = await refusalOf(() => parseTpmQuote(tpm.message));
  const pcrs = quote instanceof AttestError ? quote : await refusalOf(() => requirePcrValues(quote, tpm.pcrs));
  const values: PcrValues = pcrs instanceof AttestError ? [] : pcrs;
  return {
    kind: `azure-${hcl.tee}`,
    reportData: runtime instanceof AttestError ? NO_BYTES : (runtime.userData ?? NO_BYTES),
    nonce: quote instanceof AttestError ? NO_BYTES : quote.claims.extra_data,
    registers: { log: "tcg2-sha256", values: new Map(values.map(([register, pcr]) => [`PCR${register}`, pcr])) },
    verify: (given) => verifyAzure(evidence, given),
  };
}

/** Verify the CPU's report, then the data that it authenticates; a refusal has every check. */
async function verifyAzure(evidence: AzureEvidence, given: Given): Promise<Verified> {
  const { hcl } = evidence;
  // (1) A08: the CPU's report.
  const cpu = await refusalOf(() => evidence.cpu.verify(given));
  const before = [
    ...cpu.checks,
    check("azure.format", "pass", "version 1 or 2", hcl.version, "Microsoft Azure, guest attestation, HCL report"),
  ];
  const steps = stepsFor(evidence);
  const isFalse = cpu instanceof AttestError && cpu.kind !== "endorsement";
  // (2) A03, A02, A04, A05, A07: the authenticated data. Each step relies on the previous one.
  const found = isFalse ? undefined : await refusalOf(() => judgeMachine(steps, evidence));
  if (found instanceof AttestError) throw Object.assign(found, { checks: [...before, ...found.checks] });
  // (3) What is missing counts when nothing is false.
  if (cpu instanceof AttestError) throw Object.assign(cpu, { checks: [...before, ...notEvaluated(steps)] });
  if (!found) throw new TypeError("nothing was judged and nothing refused");
  const claims = { ...azureClaims(found), [hcl.tee]: cpu.claims };
  return { ...cpu, kind: `azure-${hcl.tee}`, checks: [...before, ...found.checks], claims };
}

/**
 * The steps that apply: an SNP report has a VMPL, a TD quote repeats the TDREPORT, and version 2 repeats the user data.
 */
function stepsFor({ hcl, version }: AzureEvidence): AzureSteps {
  const applies: Readonly<Record<string, boolean>> = {
    vmpl: hcl.tee === "snp",
    tdReport: hcl.tee === "tdx",
    userData: version > 1,
  };
  return Object.fromEntries(Object.entries(AZURE_STEPS).filter(([name]) => applies[name] ?? true));
}

function notEvaluated(steps: AzureSteps): readonly Check[] {
  return Object.values(steps).map(([id, clause]) => check(id, "not evaluated", "", "an earlier check failed", clause));
}

interface JudgedMachine extends VerifiedMachine {
  readonly checks: readonly Check[];
}

/** Take the steps from REPORT_DATA to the values of the registers. */
async function judgeMachine(steps: AzureSteps, evidence: AzureEvidence): Promise<JudgedMachine> {
  const { tpm } = evidence;
  const procedure: AzureProcedure = new Procedure(steps as typeof AZURE_STEPS);
  await judgeReport(procedure, steps, evidence);
  const runtime = await procedure.step("claims", (step) => {
    const found = parseRuntimeClaims(evidence.hcl.runtimeData);
    step.tell("an RSA attestation key", `${found.akBits} bits`);
    return found;
  });
  await procedure.step("tpmSignature", async (step) => {
    await requireTpmSignature(runtime, tpm);
    step.tell(`${TPM_SCHEME} with SHA-256 by the attestation key`, "verifies");
  });
  const quote = await procedure.step("tpmQuote", (step) => {
    const found = parseTpmQuote(tpm.message);
    step.tell("a quote of TPM 2.0", `clock ${found.claims.clock}`);
    return found;
  });
  if (steps.userData) {
    // The form says that both places carry the same; one that does not is another's user data.
    await procedure.step("userData", (step) => {
      const stated = padded(quote.claims.extra_data, USER_DATA_BYTES);
      step.tell(...same("azure-user-data-mismatch", "user-data", stated, runtime.userData));
    });
  }
  const pcrs = await procedure.step("pcrDigest", async (step) => {
    const found = await requirePcrValues(quote, tpm.pcrs);
    step.tell(`a digest of ${hex(quote.pcrDigest)}`, `${found.length} registers`);
    return found;
  });
  return { hcl: evidence.hcl, runtime, quote, pcrs, checks: procedure.finish() };
}

/** Take the steps that compare the paravisor's report with what the CPU signed. */
async function judgeReport(procedure: AzureProcedure, steps: AzureSteps, evidence: AzureEvidence): Promise<void> {
  const { hcl, cpu, vmpl, quote = NO_BYTES } = evidence;
  if (steps.vmpl) {
    await procedure.step("vmpl", (step) => {
      // A requester at VMPL 1 or above is a guest of the paravisor.
      need(vmpl === 0, "verification", "azure-vmpl-unexpected", 0, vmpl, { field: "VMPL" });
      step.tell("VMPL 0", `VMPL ${vmpl}`);
    });
  }
  await procedure.step("runtimeData", async (step) => {
    const digest = await hcl.runtimeDigest();
    if (hcl.tee === "tdx") same("azure-runtime-data-mismatch", "TDREPORT", digest, tdReportData(hcl));
    step.tell(...same("azure-runtime-data-mismatch", "REPORT_DATA", digest, cpu.reportData));
  });
  if (steps.tdReport) {
    await procedure.step("tdReport", (step) => {
      // Only the quote is signed, and a splice is no honest mistake.
      const signed = tdInfo(quote, TD_INFO_OFFSETS[quote[0] ?? 0]);
      step.tell(...same("azure-td-report-mismatch", "TDINFO", signed, tdInfo(hcl.hardwareReport)));
    });
  }
}

/** A04: the attestation key in the runtime claims signed the quote. */
async function requireTpmSignature({ ak }: RuntimeClaims, { signature, message }: AzureEvidence["tpm"]): Promise<void> {
  const holds = await schemeHolds(TPM_SCHEME, ak, "SHA-256", signature, message);
  need(holds, "signature", "tpm-signature-invalid", TPM_SCHEME, signature, { field: "signature" });
}
