/** TCB info: what Intel says about the firmware of a kind of platform (PCS API version 4; intel-tdx-sgx.md 9). */

import type { Bytes } from "../bytes";
import { type Members, readMembers } from "./members";
import type { Tee } from "./quote";
import { COMPONENT_STATUSES, type ComponentStatus, PLATFORM_STATUSES, type PlatformStatus } from "./status";

/** The longest TCB info seen has 19 levels. */
const MAX_LEVELS = 256;
/** One for each major version that TEE_TCB_SVN can name. */
const MAX_MODULE_IDENTITIES = 256;
const MAX_SVN = 0xffff;

/** One level of a platform: it applies from these security version numbers up. */
export interface TcbLevel {
  /** 16 numbers, compared with the components in the PCK certificate. */
  readonly sgx: readonly number[];
  readonly pceSvn: number;
  /** 16 numbers, compared with TEE_TCB_SVN; empty in a TCB info of SGX. */
  readonly tdx: readonly number[];
  readonly tcbDate: number;
  readonly status: PlatformStatus;
  readonly advisoryIds: readonly string[];
}

/** One level of the TDX module or of the quoting enclave: it applies from this ISVSVN up. */
export interface ComponentLevel {
  readonly isvSvn: number;
  readonly status: ComponentStatus;
  readonly advisoryIds: readonly string[];
}

/** Who must have signed the TDX module, and with which attributes. */
export interface TdxModule {
  readonly mrSigner: Bytes;
  readonly attributes: Bytes;
  readonly attributesMask: Bytes;
}

/** The same for one major version of the TDX module (`TDX_01`, in capitals), with its levels, highest first. */
export interface TdxModuleIdentity {
  readonly id: string;
  readonly module: TdxModule;
  readonly levels: readonly ComponentLevel[];
}

/** What TCB info and QE identity have in common: from when until when they count, both included. */
export interface Dated {
  readonly issueDate: number;
  readonly nextUpdate: number;
  readonly evaluationDataNumber: number;
}

/** A readable TCB info; nothing in it is trusted before its signature is verified. */
export interface TcbInfo extends Dated {
  readonly tee: Tee;
  readonly fmspc: Bytes;
  readonly pceId: Bytes;
  /** Highest first, whatever their order in the file. */
  readonly levels: readonly TcbLevel[];
  /** For TDX; null for SGX. */
  readonly module: TdxModule | null;
  /** For TDX since 2023; empty otherwise. */
  readonly moduleIdentities: readonly TdxModuleIdentity[];
}

/** Read a TCB info: the inner JSON value exactly as served. */
export function parseTcbInfo(raw: Bytes): TcbInfo {
  const info = readMembers(raw, "tcbInfo");
  info.requireConstant("version", 3);
  info.requireConstant("tcbType", 0);
  const tee = info.choice("id", ["SGX", "TDX"]) === "TDX" ? "tdx" : "sgx";
  const isTdx = tee === "tdx";
  return {
    tee,
    ...readDates(info),
    fmspc: info.hex("fmspc", 6),
    pceId: info.hex("pceId", 2),
    levels: info
      .objects("tcbLevels", MAX_LEVELS)
      .map((level) => readLevel(level, isTdx))
      .sort(descending),
    module: isTdx ? readModule(info.object("tdxModule")) : null,
    moduleIdentities: isTdx && info.has("tdxModuleIdentities") ? readModuleIdentities(info) : [],
  };
}

/** Read the members that both kinds of documents have. */
export function readDates(document: Members): Dated {
  return {
    issueDate: document.moment("issueDate"),
    nextUpdate: document.moment("nextUpdate"),
    evaluationDataNumber: document.integer("tcbEvaluationDataNumber", 0xffff_ffff),
  };
}

function readLevel(level: Members, isTdx: boolean): TcbLevel {
  const tcb = level.object("tcb");
  return {
    sgx: tcb.componentSvns("sgxtcbcomponents"),
    pceSvn: tcb.integer("pcesvn", MAX_SVN),
    tdx: isTdx ? tcb.componentSvns("tdxtcbcomponents") : [],
    tcbDate: level.moment("tcbDate"),
    status: level.choice("tcbStatus", PLATFORM_STATUSES),
    advisoryIds: level.words("advisoryIDs"),
  };
}

/** Order levels by SGX components, PCESVN and TDX components, the highest first. */
function descending(a: TcbLevel, b: TcbLevel): number {
  const [left, right] = [[...a.sgx, a.pceSvn, ...a.tdx], [...b.sgx, b.pceSvn, ...b.tdx]];
  const differs = left.findIndex((svn, i) => svn !== right[i]);
  return differs < 0 ? 0 : right[differs]! - left[differs]!;
}

function readModule(value: Members): TdxModule {
  return {
    mrSigner: value.hex("mrsigner", 48),
    attributes: value.hex("attributes", 8),
    attributesMask: value.hex("attributesMask", 8),
  };
}

function readModuleIdentities(info: Members): readonly TdxModuleIdentity[] {
  const seen = new Set<string>();
  return info.objects("tdxModuleIdentities", MAX_MODULE_IDENTITIES, 0).map((identity) => {
    const id = identity.word("id").toUpperCase();
    if (seen.has(id)) throw identity.refuse("id", "no identity twice"); // two readers could pick one each
    seen.add(id);
    return { id, module: readModule(identity), levels: readComponentLevels(identity) };
  });
}

/** Read the `tcbLevels` of a TDX module identity or a QE identity, highest ISVSVN first. */
export function readComponentLevels(owner: Members): readonly ComponentLevel[] {
  const levels = owner.objects("tcbLevels", MAX_LEVELS).map((level) => {
    level.moment("tcbDate"); // no claim comes of it, but a document without it is none of Intel's
    return {
      isvSvn: level.object("tcb").integer("isvsvn", MAX_SVN),
      status: level.choice("tcbStatus", COMPONENT_STATUSES),
      advisoryIds: level.words("advisoryIDs"),
    };
  });
  return levels.sort((a, b) => b.isvSvn - a.isvSvn);
}
