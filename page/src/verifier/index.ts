/** What the bundle `verifier.js` offers. */

export { verifyEvidence } from "./api";
export type * from "./api";
