/** SEV-SNP evidence: one report, and the certificates that came with it. */

import { type Bytes, NO_BYTES, base64urlBytes } from "../bytes";
import { type Crl, parseCrl } from "../crl";
import { AttestError, fail } from "../errors";
import { isObject, jsonValue } from "../json";
import { type Certificate, parseCertificate } from "../x509";
import { REPORT_BYTES, type SnpReport, parseReport } from "./structure";
import { type TableEntry, parseTable } from "./table";

/** The all-zero entry that ends every table. */
const SHORTEST_TABLE_BYTES = 24;

/** A report with what the Attester presented beside it. */
export interface SnpEvidence {
  readonly report: SnpReport;
  /** DER of the certificates presented as VCEK or VLEK; one that cannot be read refuses. */
  readonly leaves: readonly Bytes[];
  /** Other certificates and lists that could be read. */
  readonly issuers: readonly Certificate[];
  readonly crls: readonly Crl[];
}

/** Read a raw report, or an extended report: the report followed by its certificate table. */
export function parseSnpEvidence(data: Bytes): SnpEvidence {
  // A few bytes more than a report are no table but a defect.
  const table = data.length < REPORT_BYTES + SHORTEST_TABLE_BYTES ? NO_BYTES : data.slice(REPORT_BYTES);
  return withTable(parseReport(table.length ? data.slice(0, REPORT_BYTES) : data), parseTable(table));
}

/** Read what configfs-tsm hands out, as JSON with base64url members: `configfs-tsm-invalid`, `evidence-unsupported`. */
export function parseConfigfsTsm(data: Bytes): SnpEvidence {
  const document = jsonValue(data, "configfs-tsm evidence");
  const members = isObject(document) ? document : {};
  const { provider, outblob, auxblob = "" } = members;
  const known = Object.keys(members).every((name) => ["provider", "outblob", "auxblob"].includes(name));
  if (!known || typeof provider !== "string" || typeof outblob !== "string" || typeof auxblob !== "string") {
    return fail("malformed", "configfs-tsm-invalid", "configfs-tsm evidence has the texts provider, outblob and perhaps auxblob");
  }
  if (provider !== "sev_guest") {
    fail("unsupported", "evidence-unsupported", "", { expected: "sev_guest" });
  }
  return withTable(parseReport(base64urlBytes(outblob, "outblob")), parseTable(base64urlBytes(auxblob, "auxblob")));
}

function withTable(report: SnpReport, entries: readonly TableEntry[]): SnpEvidence {
  const issuers: Certificate[] = [];
  const crls: Crl[] = [];
  for (const { kind, data } of entries) {
    try {
      if (kind === "ASK" || kind === "ARK") issuers.push(parseCertificate(data));
      else if (kind === "CRL") crls.push(parseCrl(data));
    } catch (error) {
      if (!(error instanceof AttestError)) throw error; // what cannot be read is missing
    }
  }
  const leaves = entries.filter(({ kind }) => kind === "VCEK" || kind === "VLEK").map(({ data }) => data);
  return { report, leaves, issuers, crls };
}
