/** What is loaded once Azure's evidence is met. */

// What all formats share is one file this way, and not one for each set of formats that share it.
import "../api";

import type { Bytes } from "../bytes";
import type { ParsedCpu } from "../formats";
import { parseAzureEvidence } from "./forms";
import { azureCpu } from "./verify";

/** @param readQuote reads the TD quote, of a VM on TDX */
export async function readAzure(value: Bytes, readQuote: (quote: Bytes) => ParsedCpu | Promise<ParsedCpu>): Promise<ParsedCpu> {
  return azureCpu(await parseAzureEvidence(value, readQuote));
}
