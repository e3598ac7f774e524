/** The SGX enclave report body: 384 bytes, little-endian (Intel SDM volume 3D, REPORTBODY; intel-tdx-sgx.md 3). */

import type { Bytes } from "../bytes";
import { type Decoded, decodeLayout, layoutSize } from "../reader";

/**
 * Reserved spans are kept and not judged: the report is signed whole, and Intel gives such bytes a meaning from time to
 * time (CET_ATTRIBUTES came that way).
 */
const LAYOUT = {
  cpu_svn: 16,
  misc_select: "u4",
  reserved1: 12,
  isv_ext_prod_id: 16,
  attributes: 16,
  mr_enclave: 32,
  reserved2: 32,
  mr_signer: 32,
  reserved3: 32,
  config_id: 64,
  isv_prod_id: "u2",
  isv_svn: "u2",
  config_svn: "u2",
  reserved4: 42,
  isv_family_id: 16,
  report_data: 64,
} as const;

export const ENCLAVE_REPORT_BYTES = layoutSize(LAYOUT);

/** Named bits of ATTRIBUTES.FLAGS; others are kept and shown. */
export const ATTRIBUTE_BITS: Readonly<Record<string, number>> = {
  init: 0,
  debug: 1,
  mode64bit: 2,
  provision_key: 4,
  einittoken_key: 5,
  cet: 6,
  kss: 7,
  aex_notify: 10,
};

/** An enclave report as presented: untrusted until the signature over it is verified. */
export type EnclaveReport = Decoded<typeof LAYOUT>;

/** Read an enclave report of exactly 384 bytes. */
export const parseEnclaveReport = (raw: Bytes): EnclaveReport => decodeLayout(LAYOUT, raw, "enclave", "");
