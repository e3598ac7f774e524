/** What is loaded once evidence or collateral of Intel's is met. */

// What all formats share is one file this way, and not one for each set of formats that share it.
import "../api";

export { intelDocument, parsePcsAnswer } from "./document";
export { parseQeIdentity } from "./qe_identity";
export { parseTcbInfo } from "./tcb_info";
export { readIntelQuote } from "./verify";
