/** What is loaded once evidence or collateral of Intel's is met. */

// What all formats share is one file this way, and not one for each set of formats that share it.
import "../api";

export { parsePcsAnswer } from "./document";
export { certificates, readCollateral } from "./forms";
export { readIntelQuote } from "./verify";
