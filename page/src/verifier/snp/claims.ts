/** Claims of a verified SEV-SNP report. */

import { type Bytes, isZero, padded } from "../bytes";
import { type Claims, type ClaimValue, nestedClaims, without } from "../claims";
import { valueNames } from "../unknown_values";
import type { SnpLeaf } from "./leaves";
import type { SnpReport } from "./structure";
import { type Tcbs, covers, tcbText } from "./tcb";

/** Named bits of POLICY. Bits 15:0 are the ABI version, bit 17 must be one, 63:26 must be zero. */
export const POLICY_BITS = {
  smt: 16,
  migrate_ma: 18,
  debug: 19,
  single_socket: 20,
  cxl_allow: 21,
  mem_aes_256_xts: 22,
  rapl_dis: 23,
  ciphertext_hiding_dram: 24,
  page_swap_disable: 25,
};

/** Named bits of PLATFORM_INFO. Others are kept and shown: real Turin machines set bit 6. */
export const PLATFORM_BITS = {
  smt_en: 0,
  tsme_en: 1,
  ecc_en: 2,
  rapl_dis: 3,
  ciphertext_hiding_dram_en: 4,
  alias_check_complete: 5,
  tio_en: 7,
};

const bitsOf = (value: bigint, table: Readonly<Record<string, number>>): Record<string, ClaimValue> =>
  Object.fromEntries(Object.entries(table).map(([name, bit]) => [name, Boolean((value >> BigInt(bit)) & 1n)]));

/** Major, minor and build, of which the last stands first. */
const versionText = (version: Bytes): string => [...version].reverse().join(".");

/** The HWID of the certificate, which a host cannot mask, or else CHIP_ID; undefined when both are hidden. */
function chipIdentity(chipId: Bytes, { hwid }: SnpLeaf): Bytes | undefined {
  if (hwid) return padded(hwid, chipId.length);
  return isZero(chipId) ? undefined : chipId;
}

/** The fields of the report under their names; what is undefined here is no claim. */
export function snpClaims(report: SnpReport, leaf: SnpLeaf, tcbs: Tcbs): Claims {
  const fields = without(report, "raw", "signature_algo", "signature_r", "signature_s", "key_info");
  const { policy, platform_info, cpuid, chip_id, key_info } = report;
  const current_version = versionText(report.current_version);
  const committed_version = versionText(report.committed_version);
  return nestedClaims({
    ...fields,
    product: leaf.product,
    cpuid: cpuid && { family: cpuid[0], model: cpuid[1], stepping: cpuid[2] },
    policy: { abi_major: (policy >> 8n) & 255n, abi_minor: policy & 255n, ...bitsOf(policy, POLICY_BITS) },
    platform_info: { ...bitsOf(platform_info, PLATFORM_BITS), value: platform_info },
    author_key_en: Boolean(key_info & 1),
    chip_identity: chipIdentity(chip_id, leaf),
    chip_id_masked: isZero(chip_id),
    ...tcbs,
    current_version,
    committed_version,
    provisional_firmware:
      tcbText(tcbs.committed_tcb) !== tcbText(tcbs.current_tcb) || committed_version !== current_version,
    signing_key: leaf.kind.toLowerCase(),
    csp_id: leaf.cspId,
    not_understood: valueNames(leaf.unknownValues),
    firmware_rollback_protected: covers(tcbs.committed_tcb, tcbs.reported_tcb),
    rolled_back_since_launch: !covers(tcbs.current_tcb, tcbs.launch_tcb),
  });
}
