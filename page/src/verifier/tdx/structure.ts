/** The TD report body of a TDX quote: 584 bytes for TDX 1.0 (type 2), 648 for 1.5 (type 3); intel-tdx-sgx.md 3. */

import type { Bytes } from "../bytes";
import { type Decoded, decodeLayout, layoutSize } from "../reader";

const TDX_1_0 = {
  tee_tcb_svn: 16,
  mr_seam: 48,
  mr_signer_seam: 48,
  seam_attributes: 8,
  td_attributes: "u8",
  xfam: "u8",
  mr_td: 48,
  mr_config_id: 48,
  mr_owner: 48,
  mr_owner_config: 48,
  rtmr0: 48,
  rtmr1: 48,
  rtmr2: 48,
  rtmr3: 48,
  report_data: 64,
} as const;
/** TDX 1.5 also tells the SVNs of the module that runs now, and which service TDs are bound. */
const TDX_1_5 = { ...TDX_1_0, tee_tcb_svn_2: 16, mr_service_td: 48 } as const;

/** Sizes by body type. Type 4 (885 bytes, service TDs) is not read: no real quote carries it. */
export const TD_REPORT_BYTES: Readonly<Record<number, number>> = { 2: layoutSize(TDX_1_0), 3: layoutSize(TDX_1_5) };

/** Named bits of TDATTRIBUTES; others are kept and shown. */
export const TD_ATTRIBUTE_BITS: Readonly<Record<string, number>> = {
  debug: 0,
  sept_ve_disable: 28,
  migratable: 29,
  pks: 30,
  kl: 31,
  perfmon: 63,
};
/** Bits 7:0, the TUD group: any of them marks a TD under debug, named or not. */
export const UNDER_DEBUG = 0xffn;
/** x87 and SSE: set in every TD. */
export const XFAM_FIXED_ONE = 0x3n;
/** Bits that a TD of today may set. */
export const XFAM_KNOWN = 0x0006dbe7n;

/** A TD report as presented: a stranger's word until the quote's signature is verified. */
export interface TdReport extends Decoded<typeof TDX_1_0> {
  /** Absent where the body type has no such field; so is the next. */
  readonly tee_tcb_svn_2?: Bytes;
  readonly mr_service_td?: Bytes;
}

/** Read a TD report of a type that TD_REPORT_BYTES lists; 2 in a version 4 quote. */
export function parseTdReport(raw: Bytes, bodyType: number): TdReport {
  return decodeLayout(bodyType === 3 ? TDX_1_5 : TDX_1_0, raw, "TD", "");
}
