/** Claims of verified Intel quotes: those that TDX and SGX share, and those of each. */

import { type ClaimTree, type ClaimValue, type Claims, nestedClaims, without } from "../claims";
import { ATTRIBUTE_BITS, type EnclaveReport } from "../sgx/structure";
import {
  TD_ATTRIBUTE_BITS,
  type TdReport,
  UNDER_DEBUG,
  XFAM_FIXED_ONE,
  XFAM_KNOWN,
  isServiceTdBound,
} from "../tdx/structure";
import type { TcbEvaluation } from "./evaluation";
import type { PckCertificate } from "./pck";
import type { Quote } from "./quote";

const NAMED_TD_BITS = Object.values(TD_ATTRIBUTE_BITS).reduce((mask, bit) => mask | (1n << BigInt(bit)), 0n);

/** Every claim of a quote; those of the evaluation are absent when the TCB was left unchecked. */
export function claimsOf(
  { td, enclave, version }: Quote,
  { certificate: _, ...pck }: PckCertificate,
  evaluation: TcbEvaluation | undefined,
): Claims {
  return nestedClaims({ ...(td ? tdxClaims(td) : sgxClaims(enclave!)), version, ...pck, ...evaluation });
}

/** One claim for each named bit. */
const bitClaims = (names: Readonly<Record<string, number>>, value: bigint): Record<string, ClaimValue> =>
  Object.fromEntries(Object.entries(names).map(([name, bit]) => [name, ((value >> BigInt(bit)) & 1n) === 1n]));

/** Every field is a claim as it stands, but for what is said of its bits. */
function tdxClaims(td: TdReport): ClaimTree {
  const { td_attributes: value, xfam, tee_tcb_svn } = td;
  return {
    ...td,
    service_td_bound: isServiceTdBound(td),
    td_attributes: {
      ...bitClaims(TD_ATTRIBUTE_BITS, value),
      under_debug: (value & UNDER_DEBUG) !== 0n,
      unnamed: value & ~NAMED_TD_BITS,
      value,
    },
    xfam_known: (xfam & XFAM_FIXED_ONE) === XFAM_FIXED_ONE && (xfam & ~XFAM_KNOWN) === 0n,
    tdx_module: { svn: tee_tcb_svn[0], major_version: tee_tcb_svn[1] },
  };
}

/** Likewise; what is reserved says nothing. */
function sgxClaims(enclave: EnclaveReport): ClaimTree {
  const attributes = new DataView(enclave.attributes.buffer);
  return {
    ...without(enclave, "reserved1", "reserved2", "reserved3", "reserved4"),
    attributes: {
      ...bitClaims(ATTRIBUTE_BITS, attributes.getBigUint64(0, true)),
      xfrm: attributes.getBigUint64(8, true),
    },
  };
}
