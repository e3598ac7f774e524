/** SEV-SNP evidence: one report, and the certificates that came with it. */

import type { Bytes } from "../bytes";
import { parseCrl } from "../crl";
import { refusalOf } from "../errors";
import type { ParsedCpu } from "../evidence";
import { type Endorsements, merged, nothingFound } from "../pool";
import { parseCertificate } from "../x509";
import { REPORT_BYTES, type SnpReport, parseReport } from "./structure";
import { parseTable } from "./certificate_table";
import { verifySnp } from "./verify";

/** The all-zero entry that ends every table. */
const SHORTEST_TABLE_BYTES = 24;

/**
 * Facts about a report before it is verified.
 *
 * @param leaves DER of the certificates presented as VCEK or VLEK; one that cannot be read refuses
 * @param presented other certificates and lists that came along
 */
export const snpCpu = (report: SnpReport, leaves: readonly Bytes[], presented: Partial<Endorsements>): ParsedCpu => ({
  kind: "sev-snp",
  reportData: report.report_data,
  snp: report,
  verify: (given) => verifySnp(report, leaves, { ...given, endorsements: merged(presented, given.endorsements) }),
});

/** Read a raw report, or an extended report: the report followed by its certificate table. */
export function readSnp(data: Bytes): Promise<ParsedCpu> {
  // A few bytes more than a report are no table but a defect.
  const end = data.length < REPORT_BYTES + SHORTEST_TABLE_BYTES ? data.length : REPORT_BYTES;
  return readParts(data.slice(0, end), data.slice(end));
}

/** Read a report, and the certificate table that came with it. */
export async function readParts(raw: Bytes, table: Bytes): Promise<ParsedCpu> {
  const report = parseReport(raw);
  const leaves: Bytes[] = [];
  const { certificates, crls } = nothingFound();
  for (const { kind, data } of parseTable(table)) {
    if (kind.startsWith("V")) leaves.push(data);
    // Unreadable endorsements count as missing.
    if (kind.startsWith("A")) await refusalOf(() => certificates.push(parseCertificate(data)));
    if (kind.startsWith("C")) await refusalOf(() => crls.push(parseCrl(data)));
  }
  return snpCpu(report, leaves, { certificates, crls });
}
