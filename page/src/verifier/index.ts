/** Public names of the bundle `verifier.js`. */

export { verifyEvidence } from "./verify_evidence";
export type * from "./api";
