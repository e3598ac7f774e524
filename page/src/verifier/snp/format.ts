/** How SEV-SNP evidence is read: what `formats.ts` loads. */

import type { Bytes } from "../bytes";
import type { ParsedCpu } from "../formats";
import { type SnpEvidence, parseConfigfsTsm, parseSnpEvidence } from "./evidence";
import { verifySnp } from "./verify";

function cpu(evidence: SnpEvidence): ParsedCpu {
  return { kind: "sev-snp", reportData: evidence.report.report_data, verify: (given) => verifySnp(evidence, given) };
}

/** A raw report, or one with its certificate table. */
export function readSnp(value: Bytes): ParsedCpu {
  return cpu(parseSnpEvidence(value));
}

export function readConfigfsTsm(value: Bytes): ParsedCpu {
  return cpu(parseConfigfsTsm(value));
}
