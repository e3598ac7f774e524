/**
 * Is this evidence of an Azure confidential VM genuine? Checks A01 to A08 of azure-cvm.md, but for the nonce.
 *
 *     nonce, PCR values ── TPM quote ── AK in the runtime claims ── REPORT_DATA of the CPU's report ── AMD or Intel
 *
 * The chain is walked from its anchor outwards, and no link is used before the one that vouches for it was found to
 * hold. A missing endorsement of the CPU's report alone does not end the walk, so that evidence that is plainly false is
 * called false; nothing is verified then all the same.
 */

import { type Bytes, NO_BYTES, padded } from "../bytes";
import { type Taken, check, same, takeSteps } from "../checks";
import { nestedClaims } from "../claims";
import { schemeHolds } from "../crypto";
import { AttestError, need, refusalOf } from "../errors";
import type { Given, ParsedCpu, Verified } from "../formats";
import { type PcrValues, type TpmQuote, parseTpmQuote, requirePcrValues } from "../tpm/quote";
import { type AzureEvidence, parseAzureEvidence } from "./forms";
import { type RuntimeClaims, parseRuntimeClaims } from "./runtime";
import { tdInfo, tdReportData } from "./structure";

/** Where TDATTRIBUTES stands in a quote of version 4 and in one of version 5 (intel-tdx-sgx.md 3). */
const enum TD_INFO {
  at4 = 168,
  at5 = 174,
}

/** Read evidence, ready for comparisons before verification; a quote or claims that cannot be read are refused by the procedure. */
export async function readAzure(value: Bytes): Promise<ParsedCpu> {
  const evidence = await parseAzureEvidence(value);
  let reportData = NO_BYTES;
  let nonce = NO_BYTES;
  let pcrs: PcrValues = [];
  await refusalOf(() => {
    reportData = parseRuntimeClaims(evidence.hcl.runtimeData).userData ?? reportData;
  });
  await refusalOf(async () => {
    const quote = parseTpmQuote(evidence.tpm.message);
    nonce = quote.claims.extra_data;
    pcrs = await requirePcrValues(quote, evidence.tpm.pcrs);
  });
  return {
    kind: `azure-${evidence.hcl.tee}`,
    reportData,
    nonce,
    registers: { log: "tcg2-sha256", values: new Map(pcrs.map(([register, value]) => [`PCR${register}`, value])) },
    verify: (given) => verifyAzure(evidence, given),
  };
}

async function verifyAzure(evidence: AzureEvidence, given: Given): Promise<Verified> {
  const { version, hcl, cpu, vmpl, quote: td = NO_BYTES, tpm } = evidence;
  const isTdx = hcl.tee === "tdx";
  let runtime!: RuntimeClaims;
  let quote!: TpmQuote;
  let pcrs!: PcrValues;
  const steps: (Taken | false)[] = [
    !isTdx && [
      "azure.vmpl",
      "azure-cvm.md A08, 6",
      () => {
        // Whoever sits at VMPL 1 or above is the paravisor's guest.
        need(vmpl === 0, "verification", "azure-vmpl-unexpected", 0, vmpl, { field: "VMPL" });
        return [0, vmpl];
      },
    ],
    [
      "azure.runtime_data",
      "azure-cvm.md A03",
      async () => {
        const code = "azure-runtime-data-mismatch";
        const digest = await hcl.runtimeDigest();
        if (isTdx) same(code, "TDREPORT", digest, tdReportData(hcl));
        return same(code, "REPORT_DATA", digest, cpu.reportData);
      },
    ],
    isTdx && [
      "azure.td_report",
      "azure-cvm.md 4",
      // Only the quote is signed, and a splice is no honest mistake.
      () =>
        same(
          "azure-td-report-mismatch",
          "TDINFO",
          tdInfo(td, td[0] === 5 ? TD_INFO.at5 : TD_INFO.at4),
          tdInfo(hcl.hardwareReport),
        ),
    ],
    [
      "azure.claims",
      "azure-cvm.md A02",
      () => {
        runtime = parseRuntimeClaims(hcl.runtimeData);
        return ["RSA", runtime.akBits];
      },
    ],
    [
      "azure.tpm_signature",
      "azure-cvm.md A04",
      async () => {
        const scheme = "RSASSA-PKCS1-v1_5";
        const holds = await schemeHolds(scheme, runtime.ak, "SHA-256", tpm.signature, tpm.message);
        need(holds, "signature", "tpm-signature-invalid", scheme, tpm.signature, { field: "signature" });
        return [scheme, "verifies"];
      },
    ],
    [
      "azure.tpm_quote",
      "TPM 2.0 Library, part 2, TPMS_ATTEST; azure-cvm.md A05",
      () => {
        quote = parseTpmQuote(tpm.message);
        return ["quote", quote.claims.clock];
      },
    ],
    version > 1 && [
      "azure.user_data",
      "azure-cvm.md 9",
      // The form says that both places carry the same; one that does not is another's user data.
      () => same("azure-user-data-mismatch", "user-data", padded(quote.claims.extra_data, 64), runtime.userData),
    ],
    [
      "azure.pcr_digest",
      "azure-cvm.md A07",
      async () => {
        pcrs = await requirePcrValues(quote, tpm.pcrs);
        return [quote.pcrDigest, pcrs.length];
      },
    ],
  ];
  const applying = steps.filter((step) => step !== false);
  // (1) A08: the CPU's report.
  const found = await refusalOf(() => cpu.verify(given));
  const before = [...found.checks, check("azure.format", "pass", "1 or 2", hcl.version, "azure-cvm.md A01")];
  const refused = found instanceof AttestError ? found : undefined;
  // (2) A03, A02, A04, A05, A07: what it vouches for. Each step stands on the one before.
  const checks = await takeSteps(applying, before, refused?.kind === "endorsement" ? undefined : refused);
  // (3) What is missing counts when nothing is false.
  if (found instanceof AttestError) return takeSteps(applying, before, found) as Promise<never>;
  const own = nestedClaims({
    pcrs: Object.fromEntries(pcrs),
    vm_configuration: unlessEmpty(runtime.vmConfiguration),
    user_data: runtime.userData,
    tpm: quote.claims,
    hcl: { version: hcl.version },
    unknown_claims: unlessEmpty(runtime.unknown),
  });
  return { ...found, kind: `azure-${hcl.tee}`, checks, claims: { ...own, [hcl.tee]: found.claims } };
}

const unlessEmpty = <T extends object>(members: T): T | undefined =>
  Object.keys(members).length ? members : undefined;
