/** What a verified SEV-SNP report states, in the order in which people read it. */

import { isZero } from "../bytes";
import { type Claims, type ClaimValue, nestedClaims } from "../claims";
import { PLATFORM_BITS, POLICY_BITS } from "./structure";
import { covers, sameTcb } from "./tcb";
import type { VerifiedSnp } from "./verify";

function bitsOf(value: bigint, table: Readonly<Record<string, number>>): Record<string, ClaimValue> {
  return Object.fromEntries(Object.entries(table).map(([name, bit]) => [name, ((value >> BigInt(bit)) & 1n) === 1n]));
}

export function snpClaims({ report: r, leaf, product, tcbs }: VerifiedSnp): Claims {
  const version = (which: "current" | "committed"): string => `${r[`${which}_major`]}.${r[`${which}_minor`]}.${r[`${which}_build`]}`;
  const provisional = !sameTcb(tcbs.committed_tcb, tcbs.current_tcb) || version("committed") !== version("current");
  return nestedClaims({
    version: r.version,
    product,
    cpuid: r.cpuid_fam_id === undefined ? undefined : { family: r.cpuid_fam_id, model: r.cpuid_mod_id, stepping: r.cpuid_step },
    guest_svn: r.guest_svn,
    vmpl: r.vmpl,
    policy: { abi_major: (r.policy >> 8n) & 0xffn, abi_minor: r.policy & 0xffn, ...bitsOf(r.policy, POLICY_BITS) },
    platform_info: { ...bitsOf(r.platform_info, PLATFORM_BITS), value: r.platform_info },
    report_data: r.report_data,
    measurement: r.measurement,
    host_data: r.host_data,
    family_id: r.family_id,
    image_id: r.image_id,
    id_key_digest: r.id_key_digest,
    author_key_digest: r.author_key_digest,
    author_key_en: (r.key_info & 1) === 1,
    report_id: r.report_id,
    report_id_ma: r.report_id_ma,
    chip_id: r.chip_id,
    chip_id_masked: isZero(r.chip_id),
    reported_tcb: tcbs.reported_tcb,
    current_tcb: tcbs.current_tcb,
    committed_tcb: tcbs.committed_tcb,
    launch_tcb: tcbs.launch_tcb,
    current_version: version("current"),
    committed_version: version("committed"),
    provisional_firmware: provisional,
    launch_mit_vector: r.launch_mit_vector,
    current_mit_vector: r.current_mit_vector,
    signing_key: leaf.kind,
    csp_id: leaf.cspId,
    firmware_rollback_protected: covers(tcbs.committed_tcb, tcbs.reported_tcb),
  });
}
