/** What is loaded once evidence or collateral of Intel's is met. */

export { parsePcsAnswer } from "./document";
export { certificates, readCollateral } from "./forms";
export { readIntelQuote } from "./verify";
