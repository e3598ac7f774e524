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
export function claimsOf(quote: Quote, pck: PckCertificate, evaluation: TcbEvaluation | undefined): Claims {
  const { td, enclave, version } = quote;
  const own = td ? tdxClaims(td) : enclave ? sgxClaims(enclave) : {};
  return nestedClaims({ ...own, version, ...pckClaims(pck), ...(evaluation ? tcbClaims(evaluation) : {}) });
}

function pckClaims(pck: PckCertificate): ClaimTree {
  return {
    fmspc: pck.fmspc,
    pce_id: pck.pceId,
    pce_svn: pck.pceSvn,
    cpu_svn: pck.cpuSvn,
    ppid: pck.ppid,
    "platform.ca": pck.ca,
    "platform.instance_id": pck.platformInstanceId ?? undefined,
    "platform.dynamic_platform": pck.dynamicPlatform ?? undefined,
    "platform.cached_keys": pck.cachedKeys ?? undefined,
    "platform.smt_enabled": pck.smtEnabled ?? undefined,
  };
}

function tcbClaims(evaluation: TcbEvaluation): ClaimTree {
  const { tcb_date, tdx_module_status } = evaluation;
  return { ...evaluation, tdx_module_status: tdx_module_status ?? undefined, tcb_date: rfc3339(tcb_date) };
}

/** One claim for each named bit. */
function bitClaims(prefix: string, names: Readonly<Record<string, number>>, value: bigint): ClaimTree {
  const claims = Object.entries(names).map(([name, bit]) => [`${prefix}.${name}`, ((value >> BigInt(bit)) & 1n) === 1n]);
  return Object.fromEntries(claims) as Record<string, ClaimValue>;
}

function tdxClaims(td: TdReport): ClaimTree {
  const { td_attributes, xfam, tee_tcb_svn } = td;
  return {
    mr_td: td.mr_td,
    rtmr0: td.rtmr0,
    rtmr1: td.rtmr1,
    rtmr2: td.rtmr2,
    rtmr3: td.rtmr3,
    report_data: td.report_data,
    mr_config_id: td.mr_config_id,
    mr_owner: td.mr_owner,
    mr_owner_config: td.mr_owner_config,
    mr_service_td: td.mr_service_td,
    service_td_bound: td.mr_service_td !== undefined && !isZero(td.mr_service_td),
    ...bitClaims("td_attributes", TD_ATTRIBUTE_BITS, td_attributes),
    "td_attributes.under_debug": (td_attributes & UNDER_DEBUG) !== 0n,
    "td_attributes.unnamed": td_attributes & ~NAMED_TD_BITS,
    "td_attributes.value": td_attributes,
    xfam,
    xfam_known: (xfam & XFAM_FIXED_ONE) === XFAM_FIXED_ONE && (xfam & ~XFAM_KNOWN) === 0n,
    mr_seam: td.mr_seam,
    mr_signer_seam: td.mr_signer_seam,
    seam_attributes: td.seam_attributes,
    tee_tcb_svn,
    tee_tcb_svn_2: td.tee_tcb_svn_2,
    "tdx_module.svn": tee_tcb_svn[0],
    "tdx_module.major_version": tee_tcb_svn[1],
  };
}

function sgxClaims(enclave: EnclaveReport): ClaimTree {
  const attributes = new DataView(enclave.attributes.buffer);
  return {
    mr_enclave: enclave.mr_enclave,
    mr_signer: enclave.mr_signer,
    isv_prod_id: enclave.isv_prod_id,
    isv_svn: enclave.isv_svn,
    isv_ext_prod_id: enclave.isv_ext_prod_id,
    isv_family_id: enclave.isv_family_id,
    config_id: enclave.config_id,
    config_svn: enclave.config_svn,
    report_data: enclave.report_data,
    misc_select: enclave.misc_select,
    ...bitClaims("attributes", ATTRIBUTE_BITS, attributes.getBigUint64(0, true)),
    "attributes.xfrm": attributes.getBigUint64(8, true),
  };
}
