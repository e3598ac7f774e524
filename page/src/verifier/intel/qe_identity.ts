/**
 * QE identity: which enclaves of Intel's may make quotes (PCS API version 4; intel-tdx-sgx.md 10). Names are Intel's.
 */

import type { Bytes } from "../bytes";
import { choice, constant, hexOf, integer, object, parsed } from "./json_members";
import { COMPONENT_LEVELS, DATES } from "./tcb_info";

const IDENTITY = object({
  version: constant(2),
  /** QE makes SGX quotes, TD_QE makes TDX quotes, QVE makes none. */
  id: choice("QE", "TD_QE", "QVE"),
  ...DATES,
  /** Four bytes, most significant first. */
  miscselect: hexOf(4),
  miscselectMask: hexOf(4),
  attributes: hexOf(16),
  attributesMask: hexOf(16),
  mrsigner: hexOf(32),
  isvprodid: integer(0xffff),
  tcbLevels: COMPONENT_LEVELS,
});

/** A readable QE identity, levels highest first; nothing in it is trusted before its signature is verified. */
export type QeIdentity = ReturnType<typeof IDENTITY>;

/** Read a QE identity: the inner JSON value exactly as served. */
export function parseQeIdentity(raw: Bytes): QeIdentity {
  const path = "enclaveIdentity";
  return IDENTITY(parsed(raw, path), path);
}
