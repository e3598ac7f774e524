/** What the bundle `verifier.js` offers. */

export { verifyEvidence } from "./verify_evidence";
export type * from "./api";
