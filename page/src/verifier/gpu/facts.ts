/** The facts about one device once its procedure is over. */

import type { Verified } from "../evidence";
import type { Status } from "../ocsp";
import type { Certificate } from "../x509";
import type { DeviceModel, GpuLeaf } from "./certificates";
import type { ParsedGpuEvidence } from "./evidence";
import type { Comparison, Source } from "./measurements";
import type { ReliedRim } from "./references";

/** Verified facts of a device. Built only after the last check. */
export interface GpuFacts {
  readonly evidence: ParsedGpuEvidence;
  /** L5 to L2. */
  readonly certificates: readonly Certificate[];
  /** L4. */
  readonly device: Certificate;
  readonly leaf: GpuLeaf;
  readonly identity: string;
  readonly model: DeviceModel;
  /** Proofs that no certificate is revoked; empty if that was left unchecked. */
  readonly statuses: readonly Status[];
  /** RIMs that were relied on; one that is stale, which is tolerated, is none. */
  readonly rims: Readonly<Partial<Record<Source, ReliedRim>>>;
  /** Every comparison with a RIM that was relied on; undefined without any. */
  readonly comparison: readonly Comparison[] | undefined;
}

/** A report that an NVIDIA device signed, and which is not verified: dates, revocation and RIMs are open. */
export interface AuthenticGpu {
  readonly facts: Pick<GpuFacts, "evidence" | "identity" | "model">;
}

/** A report that an NVIDIA device signed, with everything that authenticates it. */
export interface VerifiedGpu extends Verified {
  readonly facts: GpuFacts;
}
