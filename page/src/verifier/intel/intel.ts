/** What Intel's evidence and collateral are to the rest of the verifier. */

export { intelDocument, parsePcsAnswer } from "./document";
export { parseQeIdentity } from "./qe_identity";
export { parseTcbInfo } from "./tcb_info";
export { readIntelQuote } from "./verify";
