/** QE identity: which enclaves of Intel's may make quotes (PCS API version 4; intel-tdx-sgx.md 10). */

import type { Bytes } from "../bytes";
import { readMembers } from "./members";
import { type ComponentLevel, type Dated, readComponentLevels, readDates } from "./tcb_info";

/** QE makes SGX quotes, TD_QE makes TDX quotes, QVE makes none. */
const ENCLAVES = ["QE", "TD_QE", "QVE"] as const;

/** A readable QE identity; nothing in it is trusted before its signature is verified. */
export interface QeIdentity extends Dated {
  readonly id: (typeof ENCLAVES)[number];
  /** MISCSELECT as four bytes, most significant first. */
  readonly miscSelect: Bytes;
  readonly miscSelectMask: Bytes;
  readonly attributes: Bytes;
  readonly attributesMask: Bytes;
  readonly mrSigner: Bytes;
  readonly isvProdId: number;
  /** Highest ISVSVN first, whatever their order in the file. */
  readonly levels: readonly ComponentLevel[];
}

/** Read a QE identity: the inner JSON value exactly as served. */
export function parseQeIdentity(raw: Bytes): QeIdentity {
  const identity = readMembers(raw, "enclaveIdentity");
  identity.requireConstant("version", 2);
  return {
    id: identity.choice("id", ENCLAVES),
    ...readDates(identity),
    miscSelect: identity.hex("miscselect", 4),
    miscSelectMask: identity.hex("miscselectMask", 4),
    attributes: identity.hex("attributes", 16),
    attributesMask: identity.hex("attributesMask", 16),
    mrSigner: identity.hex("mrsigner", 32),
    isvProdId: identity.integer("isvprodid", 0xffff),
    levels: readComponentLevels(identity),
  };
}
