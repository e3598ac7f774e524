/** What is loaded once Azure's evidence is met. */

import type { Bytes } from "../bytes";
import type { ParsedCpu } from "../formats";
import { parseAzureEvidence } from "./forms";
import { azureCpu } from "./verify";

export { azureJson, readRawTpmQuote } from "./forms";

/** @param readQuote reads the TD quote, of a VM on TDX */
export async function readAzure(value: Bytes, readQuote: (quote: Bytes) => ParsedCpu | Promise<ParsedCpu>): Promise<ParsedCpu> {
  return azureCpu(await parseAzureEvidence(value, readQuote));
}
