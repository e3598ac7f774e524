/**
 * What Intel's documents say about one platform: TCB level, TDX module, quoting enclave, and all three together.
 *
 * Pure functions of values that were verified before, in the order of intel-tdx-sgx.md 11. A platform that no level
 * covers, and one that is revoked, fail here: no policy can allow them. Every other status is a result.
 */

import { type Bytes, equal, hex, isZero, unhex } from "../bytes";
import type { AttestError } from "../errors";
import type { EnclaveReport } from "../sgx/structure";
import type { TdReport } from "../tdx/structure";
import type { PckCertificate } from "./pck";
import type { QeIdentity } from "./qe_identity";
import type { Tee } from "./quote";
import { refusal } from "./refusal";
import { type ComponentStatus, converge, type TcbStatus } from "./status";
import type { ComponentLevel, TcbInfo, TcbLevel, TdxModule, TdxModuleIdentity } from "./tcb_info";

/** MRSIGNER and ISVPRODID of Intel's quoting enclaves (section 5); only for when QE identity is left out. */
const INTEL_QE: Readonly<Record<Tee, readonly [mrSigner: string, isvProdId: number]>> = {
  sgx: ["8c4f5775d796503e96137f77c68a829a0056ac8ded70140b081b094490c57bff", 1],
  tdx: ["dc9e2a7c6f948f17474e34a7fc43ed030f7c1563f1babddf6340c82e0e54a8c5", 2],
};
const DEBUG = 0x02;
const CONFIGURATION: readonly TcbStatus[] = [
  "ConfigurationNeeded",
  "ConfigurationAndSWHardeningNeeded",
  "OutOfDateConfigurationNeeded",
];
const CURRENT: readonly TcbStatus[] = [
  "UpToDate",
  "SWHardeningNeeded",
  "ConfigurationNeeded",
  "ConfigurationAndSWHardeningNeeded",
];
const BEHIND: readonly TcbStatus[] = ["OutOfDate", "OutOfDateConfigurationNeeded"];

/** What a quote and its PCK certificate say about a platform, as far as collateral judges it. */
export interface Platform {
  readonly tee: Tee;
  readonly pck: PckCertificate;
  readonly qe: EnclaveReport;
  /** Null for SGX. */
  readonly td: TdReport | null;
}

/** The outcome for one platform. */
export interface TcbEvaluation {
  readonly tcb_status: TcbStatus;
  /** The SGX level's for SGX, the TDX level's for TDX. */
  readonly platform_status: TcbStatus;
  /** Null for SGX. */
  readonly tdx_module_status: ComponentStatus | null;
  readonly qe_status: ComponentStatus;
  /** Of the matched level of the platform. */
  readonly tcb_date: number;
  /** Of the matched levels of all parts, sorted, none twice. */
  readonly advisory_ids: readonly string[];
  readonly tcb_evaluation_data_number: number;
  readonly qe_identity_evaluation_data_number: number;
}

const refused = (code: string, field: string, expected: string, got: string): AttestError =>
  refusal("verification", code, field, expected, got);

// -- the quoting enclave (T10)

const qeMismatch = (field: string, expected: string, got: string) =>
  refused("qe-identity-mismatch", field, expected, got);

/** Require that the quoting enclave is Intel's, and return the level that covers it. */
export function requireQe(identity: QeIdentity, qe: EnclaveReport): ComponentLevel {
  const miscSelect = unhex(qe.misc_select.toString(16).padStart(8, "0"));
  requireMasked("MISCSELECT", miscSelect, identity.miscSelectMask, identity.miscSelect);
  requireMasked("ATTRIBUTES", qe.attributes, identity.attributesMask, identity.attributes);
  if (!equal(qe.mr_signer, identity.mrSigner)) {
    throw qeMismatch("MRSIGNER", hex(identity.mrSigner), hex(qe.mr_signer));
  }
  if (qe.isv_prod_id !== identity.isvProdId) {
    throw qeMismatch("ISVPRODID", String(identity.isvProdId), String(qe.isv_prod_id));
  }
  return covering(identity.levels, qe.isv_svn, "ISVSVN");
}

function requireMasked(field: string, value: Bytes, mask: Bytes, expected: Bytes): void {
  if (!equal(masked(value, mask), expected)) {
    throw qeMismatch(field, `${hex(expected)} under mask ${hex(mask)}`, hex(value));
  }
}

/** Keep the bits of the mask; both are of one length, by their specifications. */
const masked = (value: Bytes, mask: Bytes) => value.map((byte, i) => byte & mask[i]!);

/**
 * Require Intel's production quoting enclave by constants, for when QE identity is left out on request.
 *
 * The PCE certifies any enclave that may use the provisioning key, so without this step the chain would not prove that
 * Intel's quoting enclave made the quote (section 5).
 */
export function requireIntelQe(tee: Tee, qe: EnclaveReport): void {
  const [signer, product] = INTEL_QE[tee];
  if (hex(qe.mr_signer) !== signer) throw qeMismatch("MRSIGNER", signer, hex(qe.mr_signer));
  if (qe.isv_prod_id !== product) throw qeMismatch("ISVPRODID", String(product), String(qe.isv_prod_id));
  if ((qe.attributes[0]! & DEBUG) !== 0) throw qeMismatch("ATTRIBUTES", "DEBUG (bit 1) not set", hex(qe.attributes));
}

// -- the TDX module (T11)

/**
 * Require that the TDX module is Intel's, and return the identity of its major version.
 *
 * @returns null for major version 0, which TCB infos describe as a whole and without levels.
 */
export function findModule(info: TcbInfo, td: TdReport): TdxModuleIdentity | null {
  const major = td.tee_tcb_svn[1]!;
  const identity = major === 0 ? null : moduleIdentity(info, major);
  const module = identity === null ? info.module : identity.module;
  // Only a TCB info of SGX has none, which the choice by TEE keeps away from TDX quotes.
  if (module === null) throw moduleMismatch("tdxModule", "a TCB info of TDX", "one of SGX");
  requireModule(module, td);
  return identity;
}

const moduleMismatch = (field: string, expected: string, got: string) =>
  refused("tdx-module-mismatch", field, expected, got);

function moduleIdentity(info: TcbInfo, major: number): TdxModuleIdentity {
  const wanted = `TDX_${major.toString(16).toUpperCase().padStart(2, "0")}`;
  const identity = info.moduleIdentities.find(({ id }) => id === wanted);
  if (identity === undefined) {
    const known = info.moduleIdentities.map(({ id }) => id).join(", ") || "major version 0";
    throw refused("tdx-module-unknown", "TEE_TCB_SVN", known, wanted);
  }
  return identity;
}

function requireModule(module: TdxModule, td: TdReport): void {
  if (!equal(td.mr_signer_seam, module.mrSigner)) {
    throw moduleMismatch("MRSIGNERSEAM", hex(module.mrSigner), hex(td.mr_signer_seam));
  }
  const attributes = td.seam_attributes;
  if (!isZero(attributes) || !equal(masked(attributes, module.attributesMask), module.attributes)) {
    throw moduleMismatch("SEAMATTRIBUTES", `zero, and ${hex(module.attributes)}`, hex(attributes));
  }
}

// -- levels, and all together (T12)

/** Find the levels that cover a platform, and bring their statuses together (sections 11 to 13 and 15). */
export function evaluateTcb(
  info: TcbInfo,
  identity: QeIdentity,
  platform: Platform,
  module: TdxModuleIdentity | null,
  qeLevel: ComponentLevel,
): TcbEvaluation {
  const { sgxLevel, level, moduleLevel } = findLevels(info, platform, module);
  let status: TcbStatus = level.status;
  if (moduleLevel !== null) {
    status = converge(status, moduleLevel.status);
    status = relaunch(info, platform.td, sgxLevel, moduleLevel, qeLevel, status);
  }
  status = converge(status, qeLevel.status);
  if (status === "Revoked") throw refused("tcb-revoked", "tcbStatus", "a status other than Revoked", status);
  const matched = [level, qeLevel, ...(moduleLevel === null ? [] : [moduleLevel])];
  return {
    tcb_status: status,
    platform_status: level.status,
    tdx_module_status: platform.td === null ? null : (moduleLevel?.status ?? "UpToDate"),
    qe_status: qeLevel.status,
    tcb_date: level.tcbDate,
    advisory_ids: [...new Set(matched.flatMap((found) => found.advisoryIds))].sort(),
    tcb_evaluation_data_number: info.evaluationDataNumber,
    qe_identity_evaluation_data_number: identity.evaluationDataNumber,
  };
}

interface Levels {
  readonly sgxLevel: TcbLevel;
  /** The one that counts. */
  readonly level: TcbLevel;
  readonly moduleLevel: ComponentLevel | null;
}

function findLevels(info: TcbInfo, platform: Platform, module: TdxModuleIdentity | null): Levels {
  const { pck, td } = platform;
  const coveringSgx = info.levels.filter((level) => pck.pceSvn >= level.pceSvn && atLeast(pck.cpuSvn, level.sgx));
  const sgxLevel = first(coveringSgx, platform);
  if (td === null) return { sgxLevel, level: sgxLevel, moduleLevel: null };
  // Components 0 and 1 are the module's own, and its identity judges them where there is one.
  const start = module === null ? 0 : 2;
  const svns = td.tee_tcb_svn.subarray(start);
  const level = first(
    coveringSgx.filter(({ tdx }) => atLeast(svns, tdx.slice(start))),
    platform,
  );
  const moduleLevel = module === null ? null : covering(module.levels, td.tee_tcb_svn[0]!, "TEE_TCB_SVN");
  return { sgxLevel, level, moduleLevel };
}

const atLeast = (svns: Bytes, level: readonly number[]) => level.every((svn, i) => svns[i]! >= svn);

function first(levels: readonly TcbLevel[], { pck, td }: Platform): TcbLevel {
  const level = levels[0];
  if (level !== undefined) return level;
  const module = td === null ? "" : `, TEE_TCB_SVN ${hex(td.tee_tcb_svn)}`;
  throw notSupported("TCB", `components ${pck.cpuSvn.join(" ")}, PCESVN ${pck.pceSvn}${module}`);
}

function covering(levels: readonly ComponentLevel[], isvSvn: number, field: string): ComponentLevel {
  const level = levels.find((candidate) => isvSvn >= candidate.isvSvn);
  if (level === undefined) throw notSupported(field, `ISVSVN ${isvSvn}`);
  return level;
}

const notSupported = (field: string, got: string) =>
  refused("tcb-not-supported", field, "at least the lowest level that Intel supports", got);

// -- TD relaunch (section 13)

/** Tell a TD that only has to be started anew, since its host runs a newer module by now, from one out of date. */
function relaunch(
  info: TcbInfo,
  td: TdReport | null,
  sgxLevel: TcbLevel,
  moduleLevel: ComponentLevel,
  qeLevel: ComponentLevel,
  status: TcbStatus,
): TcbStatus {
  const applies =
    qeLevel.status === "UpToDate" &&
    CURRENT.includes(sgxLevel.status) &&
    BEHIND.includes(status) &&
    moduleLevel.status === "OutOfDate";
  const now = td?.tee_tcb_svn_2;
  if (!applies || !now) return status;
  const newest = info.levels[0]!.tdx;
  const moduleSvn = now[1] === 0 ? newest[0]! : moduleIdentity(info, now[1]!).levels[0]!.isvSvn;
  if (now[0]! < moduleSvn || now[2]! < newest[2]!) return status;
  const configuration = CONFIGURATION.includes(sgxLevel.status) || CONFIGURATION.includes(status);
  return configuration ? "TDRelaunchAdvisedConfigurationNeeded" : "TDRelaunchAdvised";
}
