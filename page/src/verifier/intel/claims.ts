/** What verified Intel quotes state: the claims that TDX and SGX share, and those of each, in attest's order. */

import { isZero, rfc3339 } from "../bytes";
import { type ClaimTree, type ClaimValue, type Claims, nestedClaims } from "../claims";
import { ATTRIBUTE_BITS, type EnclaveReport } from "../sgx/structure";
import { TD_ATTRIBUTE_BITS, type TdReport, UNDER_DEBUG, XFAM_FIXED_ONE, XFAM_KNOWN } from "../tdx/structure";
import type { TcbEvaluation } from "./evaluation";
import type { PckCertificate } from "./pck";
import type { Quote } from "./quote";

const NAMED_TD_BITS = Object.values(TD_ATTRIBUTE_BITS).reduce((mask, bit) => mask | (1n << BigInt(bit)), 0n);

/** Every claim of a quote; those of the evaluation are absent when the TCB was left unchecked. */
export function claimsOf({ td, enclave, version }: Quote, pck: PckCertificate, evaluation: TcbEvaluation | undefined): Claims {
  const own = td ? tdxClaims(td) : sgxClaims(enclave!);
  return nestedClaims({ ...own, version, ...pckClaims(pck), ...(evaluation && { ...evaluation, tcb_date: rfc3339(evaluation.tcb_date) }) });
}

function pckClaims(pck: PckCertificate): ClaimTree {
  return {
    fmspc: pck.fmspc,
    pce_id: pck.pceId,
    pce_svn: pck.pceSvn,
    cpu_svn: pck.cpuSvn,
    ppid: pck.ppid,
    "platform.ca": pck.ca,
    "platform.instance_id": pck.platformInstanceId,
    "platform.dynamic_platform": pck.dynamicPlatform,
    "platform.cached_keys": pck.cachedKeys,
    "platform.smt_enabled": pck.smtEnabled,
  };
}

/** One claim for each named bit. */
function bitClaims(prefix: string, names: Readonly<Record<string, number>>, value: bigint): ClaimTree {
  const claims = Object.entries(names).map(([name, bit]) => [`${prefix}.${name}`, ((value >> BigInt(bit)) & 1n) === 1n]);
  return Object.fromEntries(claims) as Record<string, ClaimValue>;
}

/** The fields of a report that are claims as they stand, in this order. */
const pick = (report: object, names: string): ClaimTree => {
  const fields = report as ClaimTree;
  return Object.fromEntries(names.split(" ").map((name) => [name, fields[name]]));
};

function tdxClaims(td: TdReport): ClaimTree {
  const { td_attributes, xfam, tee_tcb_svn, mr_service_td } = td;
  return {
    ...pick(td, "mr_td rtmr0 rtmr1 rtmr2 rtmr3 report_data mr_config_id mr_owner mr_owner_config mr_service_td"),
    service_td_bound: mr_service_td !== undefined && !isZero(mr_service_td),
    ...bitClaims("td_attributes", TD_ATTRIBUTE_BITS, td_attributes),
    "td_attributes.under_debug": (td_attributes & UNDER_DEBUG) !== 0n,
    "td_attributes.unnamed": td_attributes & ~NAMED_TD_BITS,
    "td_attributes.value": td_attributes,
    xfam,
    xfam_known: (xfam & XFAM_FIXED_ONE) === XFAM_FIXED_ONE && (xfam & ~XFAM_KNOWN) === 0n,
    ...pick(td, "mr_seam mr_signer_seam seam_attributes tee_tcb_svn tee_tcb_svn_2"),
    "tdx_module.svn": tee_tcb_svn[0],
    "tdx_module.major_version": tee_tcb_svn[1],
  };
}

function sgxClaims(enclave: EnclaveReport): ClaimTree {
  const attributes = new DataView(enclave.attributes.buffer);
  return {
    ...pick(enclave, "mr_enclave mr_signer isv_prod_id isv_svn isv_ext_prod_id isv_family_id config_id config_svn report_data misc_select"),
    ...bitClaims("attributes", ATTRIBUTE_BITS, attributes.getBigUint64(0, true)),
    "attributes.xfrm": attributes.getBigUint64(8, true),
  };
}
