/**
 * Evaluation of one platform by Intel's documents: TCB level, TDX module, quoting enclave, and all three together.
 *
 * Pure functions of values that were verified before, in the order of intel-tdx-sgx.md 11. A platform that no level
 * covers, and one that is revoked, fail here: no policy can allow them. Every other status is a result.
 */

import { type Bytes, isZero, rfc3339, unhex } from "../bytes";
import { type Shown, shown } from "../shown";
import { AttestError, need, refusalOf, refuse } from "../errors";
import type { EnclaveReport } from "../sgx/structure";
import type { TdReport } from "../tdx/structure";
import type { PckCertificate } from "./pck";
import type { QeIdentity } from "./qe_identity";
import type { Tee } from "./quote";
import { type ComponentStatus, type TcbStatus, converge } from "./status";
import type { ComponentLevel, TcbInfo, TcbLevel, TdxModuleIdentity } from "./tcb_info";

/** MRSIGNER and ISVPRODID of Intel's quoting enclaves (section 5); only for when QE identity is left out. */
const INTEL_QE: Readonly<Record<Tee, readonly [mrSigner: string, isvProdId: number]>> = {
  sgx: ["8c4f5775d796503e96137f77c68a829a0056ac8ded70140b081b094490c57bff", 1],
  tdx: ["dc9e2a7c6f948f17474e34a7fc43ed030f7c1563f1babddf6340c82e0e54a8c5", 2],
};
const DEBUG = 0x02;

/** The outcome for one platform, as its claims name it. */
export interface TcbEvaluation {
  readonly tcb_status: TcbStatus;
  /** The SGX level's for SGX, the TDX level's for TDX. */
  readonly platform_status: TcbStatus;
  /**
   * As `tcb_status`, by the TDX module that runs now (TEE_TCB_SVN_2) and not by the one under which the TD began;
   * absent where the quote states none, or no level covers it.
   */
  readonly tcb_status_current: TcbStatus | undefined;
  /** Absent for SGX. */
  readonly tdx_module_status: ComponentStatus | undefined;
  readonly qe_status: ComponentStatus;
  /** Of the matched level of the platform. */
  readonly tcb_date: string;
  /** Of the matched levels of all parts, sorted, none twice. */
  readonly advisory_ids: readonly string[];
  readonly tcb_evaluation_data_number: number;
  readonly qe_identity_evaluation_data_number: number;
}

/** Require that a field of the quoting enclave or of the module is this, of its bits those that a mask keeps. */
function requireField(code: string, field: string, expected: Shown, got: Shown, mask?: Bytes): void {
  const kept = got instanceof Uint8Array && mask ? got.map((byte, i) => byte & mask[i]!) : got;
  need(shown(kept) === shown(expected), "verification", code, expected, kept, { field });
}

// -- the quoting enclave (T10)

const QE = "qe-identity-mismatch";

/** Require that the quoting enclave is Intel's, and return the level that covers it. */
export function requireQe(identity: QeIdentity, qe: EnclaveReport): ComponentLevel {
  requireField(
    QE,
    "MISCSELECT",
    identity.miscselect,
    unhex(qe.misc_select.toString(16).padStart(8, "0")),
    identity.miscselectMask,
  );
  requireField(QE, "ATTRIBUTES", identity.attributes, qe.attributes, identity.attributesMask);
  requireField(QE, "MRSIGNER", identity.mrsigner, qe.mr_signer);
  requireField(QE, "ISVPRODID", identity.isvprodid, qe.isv_prod_id);
  return covering(identity.tcbLevels, qe.isv_svn, "ISVSVN");
}

/**
 * Require Intel's production quoting enclave by constants, for when QE identity is left out on request.
 *
 * The PCE certifies any enclave that may use the provisioning key, so without this step the chain would not prove that
 * Intel's quoting enclave made the quote (section 5).
 */
export function requireIntelQe(tee: Tee, qe: EnclaveReport): void {
  const [signer, product] = INTEL_QE[tee];
  requireField(QE, "MRSIGNER", signer, qe.mr_signer);
  requireField(QE, "ISVPRODID", product, qe.isv_prod_id);
  requireField(QE, "DEBUG", 0, qe.attributes[0]! & DEBUG);
}

// -- the TDX module (T11)

const MODULE = "tdx-module-mismatch";

/**
 * Require that the TDX module is Intel's, and return the identity of its major version: undefined for major version 0,
 * which TCB infos describe as a whole and without levels.
 */
export function findModule(
  info: TcbInfo,
  { tee_tcb_svn, mr_signer_seam, seam_attributes }: TdReport,
): TdxModuleIdentity | undefined {
  const major = tee_tcb_svn[1]!;
  const identity = major ? moduleIdentity(info, major) : undefined;
  // The choice by TEE keeps TCB infos of SGX, which have none, away from TDX quotes.
  const module = identity ?? info.tdxModule!;
  requireField(MODULE, "MRSIGNERSEAM", module.mrsigner, mr_signer_seam);
  requireField(MODULE, "SEAMATTRIBUTES", module.attributes, seam_attributes, module.attributesMask);
  need(isZero(seam_attributes), "verification", MODULE, 0, seam_attributes, { field: "SEAMATTRIBUTES" });
  return identity;
}

function moduleIdentity({ tdxModuleIdentities: known = [] }: TcbInfo, major: number): TdxModuleIdentity {
  const wanted = `TDX_${major.toString(16).toUpperCase().padStart(2, "0")}`;
  const ids = known.map(({ id }) => id);
  return (
    known[ids.indexOf(wanted)] ?? refuse("verification", "tdx-module-unknown", ids, wanted, { field: "TEE_TCB_SVN" })
  );
}

// -- levels, and all together (T12)

/** Verified facts about one platform. */
export interface Platform {
  readonly pck: PckCertificate;
  /** Undefined for SGX. */
  readonly td: TdReport | undefined;
  /** The identity of the TDX module's major version, if it has one. */
  readonly module: TdxModuleIdentity | undefined;
  /** The level that covers the quoting enclave. */
  readonly qeLevel: ComponentLevel;
}

/** The levels of TCB info that cover a platform. */
interface Levels {
  /** By the SGX components and the PCE alone. */
  readonly sgx: TcbLevel;
  /** By all components: for SGX the same. */
  readonly platform: TcbLevel;
  /** Of the TDX module, where it has an identity of its own. */
  readonly module: ComponentLevel | undefined;
}

/** Find the levels that cover a platform, and bring their statuses together (sections 11 to 13 and 15). */
export async function evaluateTcb(info: TcbInfo, identity: QeIdentity, platform: Platform): Promise<TcbEvaluation> {
  const { td, qeLevel } = platform;
  const levels = levelsOf(info, platform);
  requireNoneRevoked([levels.platform, levels.module, qeLevel]);
  const status = statusOf(info, platform, levels);
  const advisories = [levels.platform, qeLevel, levels.module].flatMap((level) => level?.advisoryIDs ?? []);
  return {
    tcb_status: status,
    platform_status: levels.platform.tcbStatus,
    tcb_status_current: await currentStatus(info, platform),
    tdx_module_status: td ? (levels.module?.tcbStatus ?? "UpToDate") : undefined,
    qe_status: qeLevel.tcbStatus,
    tcb_date: rfc3339(levels.platform.tcbDate),
    advisory_ids: [...new Set(advisories)].sort(),
    tcb_evaluation_data_number: info.tcbEvaluationDataNumber,
    qe_identity_evaluation_data_number: identity.tcbEvaluationDataNumber,
  };
}

/** Require that Intel revoked none of these levels: `tcb-revoked`. */
export function requireNoneRevoked(levels: readonly (TcbLevel | ComponentLevel | undefined)[]): void {
  const isRevoked = levels.some((level) => level?.tcbStatus === "Revoked");
  need(!isRevoked, "verification", "tcb-revoked", "another", "Revoked", { field: "tcbStatus" });
}

/** The levels that cover a platform, of a TDX module where it has an identity of its own; `tcb-not-supported`. */
function levelsOf(info: TcbInfo, { pck, td, module }: Platform): Levels {
  return { ...platformLevels(info, pck, td), module: moduleLevel(module, td) };
}

/** The first level that covers all components; components 0 and 1 are the module's own where it has an identity. */
export function platformLevels(
  info: TcbInfo,
  { cpu_svn, pce_svn }: PckCertificate,
  td: TdReport | undefined,
): Pick<Levels, "sgx" | "platform"> {
  const got = [cpu_svn, pce_svn, td?.tee_tcb_svn].map(shown).join(" ");
  const onSgx = info.tcbLevels.filter(({ tcb }) => pce_svn >= tcb.pcesvn && atLeast(cpu_svn, tcb.sgxtcbcomponents));
  const start = td?.tee_tcb_svn[1] ? 2 : 0;
  const covers = ({ tcb }: TcbLevel): boolean =>
    !td || atLeast(td.tee_tcb_svn.subarray(start), (tcb.tdxtcbcomponents ?? []).slice(start));
  return { sgx: onSgx[0] ?? notSupported("TCB", got), platform: onSgx.find(covers) ?? notSupported("TCB", got) };
}

/** The level that covers a TDX module; undefined where it has no identity of its own. */
export const moduleLevel = (
  module: TdxModuleIdentity | undefined,
  td: TdReport | undefined,
): ComponentLevel | undefined =>
  module && td ? covering(module.tcbLevels, td.tee_tcb_svn[0]!, "TEE_TCB_SVN") : undefined;

/** The module lowers the platform's status, or asks for a new start of the TD; then the quoting enclave lowers it. */
function statusOf(info: TcbInfo, platform: Platform, levels: Levels): TcbStatus {
  let status: TcbStatus = levels.platform.tcbStatus;
  if (levels.module) {
    status = converge(status, levels.module.tcbStatus);
    if (mayRelaunch(info, platform, levels, status)) status = relaunchStatus(levels.sgx, status);
  }
  return converge(status, platform.qeLevel.tcbStatus);
}

const atLeast = (svns: Bytes, level: readonly number[]): boolean => level.every((svn, i) => svns[i]! >= svn);

const covering = (levels: readonly ComponentLevel[], isvSvn: number, field: string): ComponentLevel =>
  levels.find(({ tcb }) => isvSvn >= tcb.isvsvn) ?? notSupported(field, isvSvn);

const notSupported = (field: string, got: Shown): never =>
  refuse("verification", "tcb-not-supported", "a level that covers it", got, { field });

// -- the TDX module that runs now

/** The report with the SVN of the module that runs now as the only one; undefined where none is stated. */
export const runningModule = (td: TdReport | undefined): TdReport | undefined =>
  td?.tee_tcb_svn_2 && { ...td, tee_tcb_svn: td.tee_tcb_svn_2 };

/** The level that covers the TDX module that runs now; undefined where it has no identity of its own. */
export function runningLevel(info: TcbInfo, now: TdReport): ComponentLevel | undefined {
  const major = now.tee_tcb_svn[1]!;
  return moduleLevel(major ? moduleIdentity(info, major) : undefined, now);
}

async function currentStatus(info: TcbInfo, { pck, td, qeLevel }: Platform): Promise<TcbStatus | undefined> {
  const now = runningModule(td);
  if (!now) return undefined;
  const found = await refusalOf(() => [platformLevels(info, pck, now).platform, runningLevel(info, now)] as const);
  // A module or a level that this TCB info does not know; policies refuse an absent claim.
  if (found instanceof AttestError) return undefined;
  const [level, module] = found;
  requireNoneRevoked([level, module]);
  const status = module ? converge(level.tcbStatus, module.tcbStatus) : level.tcbStatus;
  return converge(status, qeLevel.tcbStatus);
}

// -- TD relaunch (section 13)

/**
 * True if a restart of the TD is sufficient: its host runs a newer module and is not out of date itself.
 */
function mayRelaunch(info: TcbInfo, { td, qeLevel }: Platform, { sgx, module }: Levels, status: TcbStatus): boolean {
  const now = td?.tee_tcb_svn_2;
  const isBehind = status.startsWith("OutOfDate") && module?.tcbStatus === "OutOfDate";
  const isElseCurrent = qeLevel.tcbStatus === "UpToDate" && !/^(OutOfDate|Revoked)/.test(sgx.tcbStatus);
  return now !== undefined && isBehind && isElseCurrent && isNewest(info, now);
}

/** True if the module that runs by now is the newest that TCB info lists. */
function isNewest(info: TcbInfo, now: Bytes): boolean {
  const newest = info.tcbLevels[0]!.tcb.tdxtcbcomponents!;
  const major = now[1]!;
  const moduleSvn = major ? moduleIdentity(info, major).tcbLevels[0]!.tcb.isvsvn : newest[0]!;
  return now[0]! >= moduleSvn && now[2]! >= newest[2]!;
}

function relaunchStatus(sgx: TcbLevel, status: TcbStatus): TcbStatus {
  const needsConfiguration = [sgx.tcbStatus, status].some((each) => each.includes("Configuration"));
  return needsConfiguration ? "TDRelaunchAdvisedConfigurationNeeded" : "TDRelaunchAdvised";
}
