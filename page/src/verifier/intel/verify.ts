/**
 * Is this quote genuine: made on Intel hardware, whole, unrevoked, of a platform that Intel knows? T02 to T12.
 *
 * First what needs no collateral, in an order in which a forged quote is called false before anything is called missing;
 * then what Intel's collateral says, every step of it, so that a stale document hides no revocation.
 *
 * Spec: intel-tdx-sgx.md 21.
 */

import { type Bytes, hex, rfc3339 } from "../bytes";
import { type Check, check, type Told } from "../checks";
import { AttestError } from "../errors";
import type { Given, ParsedCpu, Registers, Verified } from "../formats";
import {
  certifyingPck,
  pckCandidates,
  requireAttestationKey,
  requirePck,
  requireQuoteSignature,
} from "./authenticity";
import { findPckChain, type PckChain } from "./chain";
import { claimsOf } from "./claims";
import { type AtHand, findQeIdentity, findTcbInfo, type SignedDocument } from "./collateral";
import { evaluateTcb, findModule, type Platform, requireIntelQe, requireQe, type TcbEvaluation } from "./evaluation";
import type { PckCertificate } from "./pck";
import type { QeIdentity } from "./qe_identity";
import { parseQuote, type Quote } from "./quote";
import { findPckCrls, type PckCrls } from "./revocation";
import type { ComponentLevel, Dated, TcbInfo, TdxModuleIdentity } from "./tcb_info";

/** A quote that an Intel platform made. Built by verifyIntelQuote only. */
export interface VerifiedIntelQuote extends Verified {
  readonly quote: Quote;
  readonly pck: PckCertificate;
  /** Absent when the TCB was left unchecked. */
  readonly evaluation: TcbEvaluation | undefined;
}

/** One quote and what is at hand, filled in step by step; what a step did not find, later ones leave out. */
interface Judgement {
  readonly quote: Quote;
  readonly given: Given;
  candidates: readonly PckCertificate[];
  certifying?: PckCertificate | undefined;
  chain?: PckChain;
  crls?: PckCrls;
  tcbInfo?: SignedDocument<TcbInfo>;
  qeIdentity?: SignedDocument<QeIdentity>;
  qeLevel?: ComponentLevel;
  module?: TdxModuleIdentity | null;
  evaluation?: TcbEvaluation;
}

interface Step {
  readonly name: string;
  readonly clause: string;
  run(judgement: Judgement): void | Promise<void>;
  /** How success is told. */
  tell(judgement: Judgement): Told;
}

// -- what the steps share

/** The reasons for which a check was left out; empty when nobody asked for that. */
function reasons({ given }: Judgement, name: "revocation" | "tcb"): string {
  const found = given.unchecked.filter((relaxed) => relaxed.check === name);
  return found.length ? `unchecked: ${found.map(({ reason }) => reason).join("; ")}` : "";
}

/** The chain, which every step of collateral comes after. */
function chainOf({ chain }: Judgement): PckChain {
  if (!chain) throw new TypeError("collateral is judged after the chain");
  return chain;
}

const platformOf = (judgement: Judgement): Platform => {
  const { tee, qeReport: qe, td } = judgement.quote;
  return { tee, qe, td, pck: chainOf(judgement).pck };
};

function atHand(judgement: Judgement): AtHand {
  const { endorsements, at } = judgement.given;
  return { endorsements, root: chainOf(judgement).root, at };
}

const tcbInfoFor = (judgement: Judgement) => {
  const { fmspc, pceId } = chainOf(judgement).pck;
  return findTcbInfo(judgement.quote.tee, fmspc, pceId, atHand(judgement));
};

const qeIdentityFor = (judgement: Judgement) => findQeIdentity(judgement.quote.tee, atHand(judgement));

const dates = ({ issueDate, nextUpdate }: Dated) => `${rfc3339(issueDate)} to ${rfc3339(nextUpdate)}`;

// -- T07 to T12

/** T07: the PCK certificate and its CA are on no list, and both lists are current. */
async function judgeRevocation(judgement: Judgement): Promise<void> {
  const { pck, issuer, root } = chainOf(judgement);
  const { endorsements, at } = judgement.given;
  try {
    judgement.crls = await findPckCrls(endorsements.crls, pck.certificate, issuer, root, at);
  } catch (error) {
    // Only that nothing current is at hand can be tolerated; what a list says counts all the same.
    const isMissing = error instanceof AttestError && error.kind === "endorsement";
    if (!isMissing || !reasons(judgement, "revocation")) throw error;
  }
}

/** T08, T10: a QE identity of this TEE, signed and current, and the quoting enclave is the one that it describes. */
async function judgeQe(judgement: Judgement): Promise<void> {
  const { tee, qeReport } = judgement.quote;
  if (reasons(judgement, "tcb")) return requireIntelQe(tee, qeReport);
  judgement.qeIdentity = await qeIdentityFor(judgement);
  judgement.qeLevel = requireQe(judgement.qeIdentity.content, qeReport);
}

/** T12: the levels that cover platform, module and quoting enclave, and all of them together. */
async function judgeTcb(judgement: Judgement): Promise<void> {
  if (reasons(judgement, "tcb")) return requireNothingNegative(judgement);
  const { tcbInfo, qeIdentity, qeLevel, module = null } = judgement;
  if (!tcbInfo || !qeIdentity || !qeLevel) return;
  judgement.evaluation = evaluateTcb(tcbInfo.content, qeIdentity.content, platformOf(judgement), module, qeLevel);
}

/**
 * With the TCB left unchecked: what genuine, current collateral at hand says against the platform still counts.
 *
 * That nothing fits, or that nothing covers this platform, is what `unchecked` tolerates.
 */
async function requireNothingNegative(judgement: Judgement): Promise<void> {
  const { qeReport, td } = judgement.quote;
  try {
    const { content: info } = await tcbInfoFor(judgement);
    const { content: identity } = await qeIdentityFor(judgement);
    const qeLevel = requireQe(identity, qeReport);
    evaluateTcb(info, identity, platformOf(judgement), td && findModule(info, td), qeLevel);
  } catch (error) {
    const isTolerated =
      error instanceof AttestError &&
      (["endorsement", "signature", "chain"].includes(error.kind) || error.code === "tcb-not-supported");
    if (!isTolerated) throw error;
  }
}

/** The procedure. */
const STEPS: readonly Step[] = [
  {
    name: "pck_certificate",
    clause: "Intel SGX PCK certificate; intel-tdx-sgx.md T02, T03",
    run: (j) => void (j.candidates = pckCandidates(j.quote, j.given.endorsements, j.given.at)),
    tell: (j) => {
      const { fmspc, ca } = chainOf(j).pck;
      return ["a PCK certificate with all TCB members", `FMSPC ${hex(fmspc)}, ${ca} CA`];
    },
  },
  {
    name: "qe_report_signature",
    clause: "intel-tdx-sgx.md T04",
    run: async (j) => void (j.certifying = await certifyingPck(j.quote, j.candidates)),
    tell: () => ["ECDSA P-256 by the PCK over the QE report", "verifies"],
  },
  {
    name: "attestation_key",
    clause: "intel-tdx-sgx.md T05",
    run: (j) => requireAttestationKey(j.quote),
    tell: (j) => ["REPORTDATA of the QE report commits to the attestation key", hex(j.quote.attestationKey)],
  },
  {
    name: "quote_signature",
    clause: "intel-tdx-sgx.md T06",
    run: (j) => requireQuoteSignature(j.quote),
    tell: (j) => [`ECDSA P-256 over ${j.quote.signedBytes.length} bytes`, "verifies with the attestation key"],
  },
  {
    name: "pck_chain",
    clause: "intel-tdx-sgx.md T02",
    run: async (j) => {
      const { endorsements, anchors, at } = j.given;
      j.chain = await findPckChain(requirePck(j.quote, j.certifying), j.quote, endorsements, anchors, at);
    },
    tell: (j) => {
      const { name, pin } = chainOf(j).anchor;
      return ["a pinned Intel SGX Root CA", `${name}, key ${pin}`];
    },
  },
  {
    name: "revocation",
    clause: "intel-tdx-sgx.md T07",
    run: judgeRevocation,
    tell: (j) => {
      const { crls } = j;
      if (!crls) return ["current CRLs of the PCK's CA and of the root", reasons(j, "revocation"), "not evaluated"];
      const lists = [crls.pck, crls.root].map((crl) => `${rfc3339(crl.thisUpdate)} to ${rfc3339(crl.nextUpdate)}`);
      return ["PCK certificate and its CA not listed", `not listed, CRLs of ${lists.join("; ")}`];
    },
  },
  {
    name: "tcb_info",
    clause: "intel-tdx-sgx.md T08, T09",
    run: async (j) => {
      if (!reasons(j, "tcb")) j.tcbInfo = await tcbInfoFor(j);
    },
    tell: (j) => {
      if (!j.tcbInfo) return ["a current TCB info of the platform", reasons(j, "tcb"), "not evaluated"];
      const { content } = j.tcbInfo;
      const got = `evaluation data number ${content.evaluationDataNumber}, ${dates(content)}`;
      return [`signed for FMSPC ${hex(chainOf(j).pck.fmspc)}`, got];
    },
  },
  {
    name: "qe_identity",
    clause: "intel-tdx-sgx.md T08, T10",
    run: judgeQe,
    tell: (j) => {
      if (!j.qeIdentity) return ["Intel's Quoting Enclave", `compared with constants: ${reasons(j, "tcb")}`];
      return [`MRSIGNER ${hex(j.quote.qeReport.mr_signer)}`, `as the identity says, ${dates(j.qeIdentity.content)}`];
    },
  },
  {
    name: "module",
    clause: "intel-tdx-sgx.md T11",
    run: (j) => {
      if (j.tcbInfo && j.quote.td) j.module = findModule(j.tcbInfo.content, j.quote.td);
    },
    tell: (j) => {
      const { td } = j.quote;
      if (!td) return ["a TDX module", "SGX has none", "not evaluated"];
      const expected = "the module that TCB info describes";
      if (!j.tcbInfo) return [expected, reasons(j, "tcb"), "not evaluated"];
      return [expected, `version ${td.tee_tcb_svn[1]}, SVN ${td.tee_tcb_svn[0]}`];
    },
  },
  {
    name: "tcb",
    clause: "intel-tdx-sgx.md T12",
    run: judgeTcb,
    tell: (j) => {
      const { evaluation } = j;
      if (!evaluation) return ["a TCB level that covers the platform", reasons(j, "tcb"), "not evaluated"];
      const advisories = evaluation.advisory_ids.join(", ") || "no advisories";
      return ["a level that covers the platform, not Revoked", `${evaluation.tcb_status}, ${advisories}`];
    },
  },
];
/** From here on a missing piece does not keep a later one from being called false. */
const FIRST_OF_COLLATERAL = STEPS.findIndex(({ name }) => name === "revocation");

/** Verify a TDX or SGX quote; the refusal carries every check. */
export async function verifyIntelQuote(quote: Quote, given: Given): Promise<VerifiedIntelQuote> {
  const judgement: Judgement = { quote, given, candidates: [] };
  const failures = new Map<Step, AttestError>();
  for (const [number, step] of STEPS.entries()) {
    try {
      await step.run(judgement);
    } catch (error) {
      if (!(error instanceof AttestError)) throw error;
      const { facts } = error;
      facts.check = `${quote.tee}.${step.name}`;
      facts.clause ??= step.clause;
      failures.set(step, error);
      if (number < FIRST_OF_COLLATERAL || error.kind !== "endorsement") break;
    }
  }
  const [first, ...more] = failures.values();
  if (first) {
    const worst = more.reduce((found, failure) => (failure.exitCode < found.exitCode ? failure : found), first);
    worst.checks = refusedChecks(quote, failures);
    throw worst;
  }
  const { anchor, pck, issuer, root } = chainOf(judgement);
  const { evaluation } = judgement;
  const checks = [formatCheck(quote), ...STEPS.map((step) => told(quote, step, step.tell(judgement)))];
  const claims = claimsOf(quote, pck, evaluation);
  return { kind: quote.tee, simulated: anchor.simulated, checks, claims, chain: [pck.certificate, issuer, root], quote, pck, evaluation };
}

const told = ({ tee }: Quote, { name, clause }: Step, [expected, got, outcome = "pass"]: Told): Check =>
  check(`${tee}.${name}`, outcome, expected, got, clause);

function formatCheck({ tee, version, paddingBytes }: Quote): Check {
  const [expected, got] = ["a quote of a known version, every length exact", `version ${version}, ${paddingBytes} bytes of padding`];
  return check(`${tee}.format`, "pass", expected, got, "intel-tdx-sgx.md T01");
}

/** Tell the failed steps; of the others, those before the first failure passed and nothing is said of the rest. */
function refusedChecks(quote: Quote, failures: ReadonlyMap<Step, AttestError>): readonly Check[] {
  const first = STEPS.findIndex((step) => failures.has(step));
  const checks = STEPS.map((step, number) => {
    const failure = failures.get(step);
    if (failure) return told(quote, step, [failure.facts.expected ?? "", failure.facts.got ?? failure.message, "fail"]);
    return told(quote, step, number < first ? ["", "holds"] : ["", "an earlier check failed", "not evaluated"]);
  });
  return [formatCheck(quote), ...checks];
}

/** Read a quote, as the row of its media type wants it. */
export function readIntelQuote(value: Bytes): ParsedCpu {
  const quote = parseQuote(value);
  const { td, tee: kind, report_data: reportData } = quote;
  const verify = (given: Given) => verifyIntelQuote(quote, given);
  return { kind, reportData, verify, ...(td ? { registers: registersOf(td) } : {}) };
}

function registersOf({ rtmr0, rtmr1, rtmr2, rtmr3 }: NonNullable<Quote["td"]>): Registers {
  return { log: "ccel", values: new Map([rtmr0, rtmr1, rtmr2, rtmr3].map((value, i) => [`RTMR${i}`, value])) };
}
