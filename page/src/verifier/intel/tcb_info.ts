/**
 * TCB info: what Intel says about the firmware of a kind of platform (PCS API version 4; intel-tdx-sgx.md 9). Names are
 * Intel's.
 */

import type { Bytes } from "../bytes";
import { isObject } from "../json";
import {
  type Read,
  choice,
  constant,
  hexOf,
  highestFirst,
  integer,
  list,
  malformed,
  moment,
  object,
  optional,
  parsed,
  then,
  word,
} from "./json_members";
import { COMPONENT_STATUSES, PLATFORM_STATUSES } from "./status";

const SVN = integer(0xffff);

/** Common part of TCB info and QE identity: first and last moment of their validity, inclusive. */
export const DATES = { issueDate: moment, nextUpdate: moment, tcbEvaluationDataNumber: integer(0xffff_ffff) };

const advisoryIDs = optional(list(word, 0), []);

/** A level of the TDX module or of the quoting enclave: it applies from this ISVSVN up. */
const COMPONENT_LEVEL = object({
  // No claim comes of the date, but a document without it is none of Intel's.
  tcbDate: moment,
  tcb: object({ isvsvn: SVN }),
  tcbStatus: choice(...COMPONENT_STATUSES),
  advisoryIDs,
});
/** Several, highest first, whatever their order in the file. */
export const COMPONENT_LEVELS = then(list(COMPONENT_LEVEL), (levels) =>
  highestFirst(levels, ({ tcb }) => [tcb.isvsvn]),
);

const SVNS = then(list(object({ svn: integer(0xff) }), 16, 16), (components) => components.map(({ svn }) => svn));

/** A level of a platform: it applies from these security version numbers up. */
const TCB = { sgxtcbcomponents: SVNS, pcesvn: SVN };
const LEVEL = {
  tcb: object(TCB),
  tcbDate: moment,
  tcbStatus: choice(...PLATFORM_STATUSES),
  advisoryIDs,
};

/** Required signer and attributes of the TDX module. */
const MODULE = { mrsigner: hexOf(48), attributes: hexOf(8), attributesMask: hexOf(8) };
/** The same for one major version of it (`TDX_01`), with its levels. */
const MODULE_IDENTITY = object({ id: then(word, (id) => id.toUpperCase()), ...MODULE, tcbLevels: COMPONENT_LEVELS });

const SGX_INFO = {
  version: constant(3),
  tcbType: constant(0),
  id: choice("SGX", "TDX"),
  ...DATES,
  fmspc: hexOf(6),
  pceId: hexOf(2),
  tcbLevels: list(object(LEVEL)),
};
const TDX_INFO = {
  ...SGX_INFO,
  tcbLevels: list(object({ ...LEVEL, tcb: object({ ...TCB, tdxtcbcomponents: SVNS }) })),
  tdxModule: object(MODULE),
  tdxModuleIdentities: optional(list(MODULE_IDENTITY, 0), []),
};

export type Dated = Read<typeof DATES>;
export type ComponentLevel = ReturnType<typeof COMPONENT_LEVEL>;
export interface TcbLevel extends Read<typeof LEVEL> {
  /** The last 16 for TDX alone, compared with TEE_TCB_SVN. */
  readonly tcb: Read<typeof TCB> & { readonly tdxtcbcomponents?: readonly number[] };
}
export type TdxModule = Read<typeof MODULE>;
export type TdxModuleIdentity = ReturnType<typeof MODULE_IDENTITY>;

/** A readable TCB info; nothing in it is trusted before its signature is verified. All levels stand highest first. */
export interface TcbInfo extends Read<typeof SGX_INFO> {
  readonly tcbLevels: readonly TcbLevel[];
  /** For TDX. */
  readonly tdxModule?: TdxModule;
  /** For TDX since 2023, identifiers in capitals; empty or absent otherwise. */
  readonly tdxModuleIdentities?: readonly TdxModuleIdentity[];
}

/** Read a TCB info: the inner JSON value exactly as served. */
export function parseTcbInfo(raw: Bytes): TcbInfo {
  const path = "tcbInfo";
  const document = parsed(raw, path);
  const info: TcbInfo = object(isObject(document) && document.id === "TDX" ? TDX_INFO : SGX_INFO)(document, path);
  const ids = info.tdxModuleIdentities?.map(({ id }) => id) ?? [];
  // Two readers could pick one each.
  if (new Set(ids).size < ids.length) malformed(path, ids);
  return {
    ...info,
    tcbLevels: highestFirst(info.tcbLevels, ({ tcb }) => [
      ...tcb.sgxtcbcomponents,
      tcb.pcesvn,
      ...(tcb.tdxtcbcomponents ?? []),
    ]),
  };
}
