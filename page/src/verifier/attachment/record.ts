/** Types that every attachment shares. */

import type { TrustAnchors } from "../anchors";
import type { Check } from "../checks";
import type { Claims } from "../claims";
import type { ParsedCpu } from "../evidence";

/** An attachment that holds. */
export interface VerifiedAttachment {
  readonly claims: Claims;
  readonly checks: readonly Check[];
  readonly simulated?: boolean;
}

/** Judges an attachment that was read; throws a refusal with its checks. */
export type Judge = (cpu: ParsedCpu, anchors: TrustAnchors) => Promise<VerifiedAttachment>;
