/** Policies on CPUs other than SEV-SNP: fetched when a policy or a machine has one. */

import { azureRows } from "./azure";
import { dstackRows } from "./dstack";
import { sgxRows, tdxRows } from "./intel";
import type { References } from "./references";
import type { Row } from "./rules";
import { sampleRows } from "./sample";

export { LOADER } from "./eventlog";
export { cpuFacts } from "./other_cpu_facts";

/** The rows of each section. */
export const cpuRows = (references: References): Readonly<Record<string, Row>> => ({
  azure: azureRows(references),
  tdx: tdxRows(references),
  dstack: dstackRows,
  sgx: sgxRows(references),
  sample: sampleRows,
});
