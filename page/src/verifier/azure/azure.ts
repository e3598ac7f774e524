/** What Azure's evidence is to the rest of the verifier. */

import type { Bytes } from "../bytes";
import type { ParsedCpu } from "../formats";
import { parseAzureEvidence } from "./forms";
import { azureCpu } from "./verify";

/** @param readQuote reads the TD quote, of a VM on TDX */
export async function readAzure(value: Bytes, readQuote: (quote: Bytes) => ParsedCpu | Promise<ParsedCpu>): Promise<ParsedCpu> {
  return azureCpu(await parseAzureEvidence(value, readQuote));
}
