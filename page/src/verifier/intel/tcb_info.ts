/** TCB info: what Intel says about the firmware of a kind of platform (PCS API version 4; intel-tdx-sgx.md 9). Names are Intel's. */

import type { Bytes } from "../bytes";
import { type Read, choice, constant, hexOf, integer, list, malformed, moment, object, optional, parsed, word } from "./members";
import { COMPONENT_STATUSES, PLATFORM_STATUSES } from "./status";

const SVN = integer(0xffff);

/** What TCB info and QE identity have in common: from when until when they count, both included. */
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
export const COMPONENT_LEVELS = list(COMPONENT_LEVEL);

const SVNS = list(object({ svn: integer(0xff) }), 16, 16);
export type Components = ReturnType<typeof SVNS>;

/** A level of a platform: it applies from these security version numbers up. */
const TCB = { sgxtcbcomponents: SVNS, pcesvn: SVN };
const LEVEL = {
  tcb: object(TCB),
  tcbDate: moment,
  tcbStatus: choice(...PLATFORM_STATUSES),
  advisoryIDs,
};

/** Who must have signed the TDX module, and with which attributes. */
const MODULE = { mrsigner: hexOf(48), attributes: hexOf(8), attributesMask: hexOf(8) };
/** The same for one major version of it (`TDX_01`), with its levels. */
const MODULE_IDENTITY = object({ id: word, ...MODULE, tcbLevels: COMPONENT_LEVELS });

const HEAD = object({ version: constant(3), tcbType: constant(0), id: choice("SGX", "TDX") });
const SGX_INFO = { ...DATES, fmspc: hexOf(6), pceId: hexOf(2), tcbLevels: list(object(LEVEL)) };
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
  readonly tcb: Read<typeof TCB> & { readonly tdxtcbcomponents?: Components };
}
export type TdxModule = Read<typeof MODULE>;
export type TdxModuleIdentity = ReturnType<typeof MODULE_IDENTITY>;

/** A readable TCB info; nothing in it is trusted before its signature is verified. All levels stand highest first. */
export interface TcbInfo extends Read<typeof SGX_INFO> {
  readonly tcbLevels: readonly TcbLevel[];
  readonly id: "SGX" | "TDX";
  /** For TDX. */
  readonly tdxModule?: TdxModule;
  /** For TDX since 2023, identifiers in capitals; empty or absent otherwise. */
  readonly tdxModuleIdentities?: readonly TdxModuleIdentity[];
}

/** Read a TCB info: the inner JSON value exactly as served. */
export function parseTcbInfo(raw: Bytes): TcbInfo {
  const path = "tcbInfo";
  const document = parsed(raw, path);
  const { id } = HEAD(document, path);
  const info: Omit<TcbInfo, "id"> = object(id === "TDX" ? TDX_INFO : SGX_INFO)(document, path);
  const identities = info.tdxModuleIdentities?.map((identity) => ({
    ...identity,
    id: identity.id.toUpperCase(),
    tcbLevels: byIsvSvn(identity.tcbLevels),
  }));
  // Two readers could pick one each.
  if (new Set(identities?.map((identity) => identity.id)).size !== (identities?.length ?? 0)) malformed(path, "no module identity twice");
  return { ...info, id, tcbLevels: [...info.tcbLevels].sort(descending), ...(identities && { tdxModuleIdentities: identities }) };
}

/** SGX components, PCESVN and TDX components of a level. */
const svnsOf = ({ tcb: { sgxtcbcomponents, pcesvn, tdxtcbcomponents = [] } }: TcbLevel): number[] =>
  [...sgxtcbcomponents, { svn: pcesvn }, ...tdxtcbcomponents].map(({ svn }) => svn);

function descending(a: TcbLevel, b: TcbLevel): number {
  const [left, right] = [svnsOf(a), svnsOf(b)];
  return right.map((svn, i) => svn - left[i]!).find(Boolean) ?? 0;
}

export const byIsvSvn = (levels: readonly ComponentLevel[]): ComponentLevel[] => [...levels].sort((a, b) => b.tcb.isvsvn - a.tcb.isvsvn);
