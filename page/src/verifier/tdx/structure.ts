/** The TD report body of a TDX quote, of types 2 (TDX 1.0), 3 (1.5) and 4 (1.5 extended); intel-tdx-sgx.md 3. */

import { type Bytes, isZero } from "../bytes";
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
/** The extended one tells of service TDs, now and when the TD was started. */
const TDX_1_5_EXTENDED = {
  ...TDX_1_5,
  vm_id: "u1",
  td_id: 32,
  device_info: 48,
  initial_service_td_hash: 48,
  initial_service_td_attributes: "u8",
  initial_cpu_svn: 16,
  initial_tee_tcb_svn: 16,
  initial_fmspc: 12,
  current_service_td_hash: 48,
  current_service_td_attributes: "u8",
} as const;
const LAYOUTS = { 2: TDX_1_0, 3: TDX_1_5, 4: TDX_1_5_EXTENDED } as const;

/** Sizes by body type. */
export const TD_REPORT_BYTES: Readonly<Record<number, number>> = {
  2: layoutSize(TDX_1_0),
  3: layoutSize(TDX_1_5),
  4: layoutSize(TDX_1_5_EXTENDED),
};

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

/** A TD report as presented: untrusted until the quote's signature is verified. */
export interface TdReport extends Decoded<typeof TDX_1_0> {
  /** Absent where the body type has no such field; so are the next. */
  readonly tee_tcb_svn_2?: Bytes;
  readonly mr_service_td?: Bytes;
  readonly initial_service_td_hash?: Bytes;
  readonly current_service_td_hash?: Bytes;
}

/** True if a service TD is bound now, or was bound when the TD was started. */
export const isServiceTdBound = (td: TdReport): boolean =>
  [td.mr_service_td, td.initial_service_td_hash, td.current_service_td_hash].some((hash) => hash && !isZero(hash));

/** Read a TD report of a type that TD_REPORT_BYTES lists; 2 in a version 4 quote. */
export function parseTdReport(raw: Bytes, bodyType: number): TdReport {
  return decodeLayout<(typeof LAYOUTS)[2]>(LAYOUTS[bodyType as 2], raw, "TD", "");
}
