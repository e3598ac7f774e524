/**
 * Is this quote genuine: made on Intel hardware, whole, unrevoked, of a platform that Intel knows? T02 to T12.
 *
 * First what needs no collateral, in an order in which a forged quote is called false before anything is called missing;
 * then what Intel's collateral says, every step of it, so that a stale document hides no revocation.
 *
 * Spec: intel-tdx-sgx.md 21.
 */

import { type Bytes, rfc3339 } from "../bytes";
import { type Check, type Told, check, taken } from "../checks";
import type { Crl } from "../crl";
import { AttestError, refusalOf, shown } from "../errors";
import type { Given, ParsedCpu, Registers, Verified } from "../formats";
import { certifyingPck, pckCandidates, requireAttestationKey, requirePck, requireQuoteSignature } from "./authenticity";
import { type PckChain, findPckChain } from "./chain";
import { claimsOf } from "./claims";
import { type AtHand, findQeIdentity, findTcbInfo } from "./collateral";
import { type TcbEvaluation, evaluateTcb, findModule, requireIntelQe, requireQe } from "./evaluation";
import type { PckCertificate } from "./pck";
import type { QeIdentity } from "./qe_identity";
import { type Quote, parseQuote } from "./quote";
import { datesOf, findPckCrls } from "./revocation";
import type { ComponentLevel, Dated, TcbInfo, TdxModuleIdentity } from "./tcb_info";

/** One quote and what is at hand, filled in step by step; what a step did not find, later ones leave out. */
interface Judgement {
  readonly quote: Quote;
  readonly given: Given;
  candidates: readonly PckCertificate[];
  certifying?: PckCertificate | undefined;
  /** Found before every step of collateral. */
  chain: PckChain;
  crls?: readonly Crl[];
  tcbInfo?: TcbInfo;
  qeIdentity?: QeIdentity;
  qeLevel?: ComponentLevel;
  module?: TdxModuleIdentity | undefined;
  /** Absent when the TCB was left unchecked. */
  evaluation?: TcbEvaluation;
}

type Step = readonly [name: string, clause: string, run: (judgement: Judgement) => void | Promise<void>, tell: (judgement: Judgement) => Told];

// -- what the steps share

/** The reasons for which a check was left out; empty when nobody asked for that. */
function reasons({ given }: Judgement, name: "revocation" | "tcb"): string {
  const found = given.unchecked.filter((relaxed) => relaxed.check === name);
  return found.length ? `unchecked: ${found.map(({ reason }) => reason).join("; ")}` : "";
}

/** How it is told that something was left out. */
const leftOut = (judgement: Judgement, name: "revocation" | "tcb", expected: string): Told => [expected, reasons(judgement, name), "not evaluated"];

const atHand = ({ given: { endorsements, at }, chain: { root } }: Judgement): AtHand => ({ endorsements, root, at });

const tcbInfoFor = (judgement: Judgement): Promise<TcbInfo> => {
  const { fmspc, pceId } = judgement.chain.pck;
  return findTcbInfo(judgement.quote.tee, fmspc, pceId, atHand(judgement));
};

const qeIdentityFor = (judgement: Judgement): Promise<QeIdentity> => findQeIdentity(judgement.quote.tee, atHand(judgement));

const dates = ({ tcbEvaluationDataNumber, issueDate, nextUpdate }: Dated): string =>
  `evaluation data number ${tcbEvaluationDataNumber}, ${rfc3339(issueDate)} to ${rfc3339(nextUpdate)}`;

// -- T07 to T12

/** T07: the PCK certificate and its CA are on no list, and both lists are current. */
async function judgeRevocation(judgement: Judgement): Promise<void> {
  const { pck, issuer, root } = judgement.chain;
  const { endorsements, at } = judgement.given;
  const found = await refusalOf(() => findPckCrls(endorsements.crls, pck.certificate, issuer, root, at));
  if (!(found instanceof AttestError)) judgement.crls = found;
  // Only that nothing current is at hand can be tolerated; what a list says counts all the same.
  else if (found.kind !== "endorsement" || !reasons(judgement, "revocation")) throw found;
}

/** T08, T10: a QE identity of this TEE, signed and current, and the quoting enclave is the one that it describes. */
async function judgeQe(judgement: Judgement): Promise<void> {
  const { tee, qeReport } = judgement.quote;
  if (reasons(judgement, "tcb")) return requireIntelQe(tee, qeReport);
  judgement.qeIdentity = await qeIdentityFor(judgement);
  judgement.qeLevel = requireQe(judgement.qeIdentity, qeReport);
}

/** T12: the levels that cover platform, module and quoting enclave, and all of them together. */
async function judgeTcb(judgement: Judgement): Promise<void> {
  if (reasons(judgement, "tcb")) return requireNothingNegative(judgement);
  const { tcbInfo, qeIdentity, qeLevel, module, chain: { pck }, quote: { td } } = judgement;
  if (tcbInfo && qeIdentity && qeLevel) judgement.evaluation = evaluateTcb(tcbInfo, qeIdentity, { pck, td }, module, qeLevel);
}

/**
 * With the TCB left unchecked: what genuine, current collateral at hand says against the platform still counts.
 *
 * That nothing fits, or that nothing covers this platform, is what `unchecked` tolerates.
 */
async function requireNothingNegative(judgement: Judgement): Promise<void> {
  const { chain: { pck }, quote: { qeReport, td } } = judgement;
  const found = await refusalOf(async () => {
    const [info, identity] = [await tcbInfoFor(judgement), await qeIdentityFor(judgement)];
    const qeLevel = requireQe(identity, qeReport);
    evaluateTcb(info, identity, { pck, td }, td ? findModule(info, td) : undefined, qeLevel);
  });
  if (found instanceof AttestError && !["endorsement", "signature", "chain"].includes(found.kind) && found.code !== "tcb-not-supported") throw found;
}

/** The procedure. */
const STEPS: readonly Step[] = [
  [
    "pck_certificate",
    "Intel SGX PCK certificate; intel-tdx-sgx.md T02, T03",
    async (j) => void (j.candidates = await pckCandidates(j.quote, j.given.endorsements, j.given.at)),
    ({ chain: { pck } }) => ["a PCK certificate with all TCB members", `FMSPC ${shown(pck.fmspc)}, ${pck.ca} CA`],
  ],
  [
    "qe_report_signature",
    "intel-tdx-sgx.md T04",
    async (j) => void (j.certifying = await certifyingPck(j.quote, j.candidates)),
    () => ["signature by the PCK over the QE report", "verifies"],
  ],
  [
    "attestation_key",
    "intel-tdx-sgx.md T05",
    ({ quote }) => requireAttestationKey(quote),
    ({ quote }) => ["REPORTDATA of the QE report commits to the attestation key", quote.attestationKey],
  ],
  [
    "quote_signature",
    "intel-tdx-sgx.md T06",
    ({ quote }) => requireQuoteSignature(quote),
    ({ quote }) => [`signature by the attestation key over ${quote.signedBytes.length} bytes`, "verifies"],
  ],
  [
    "pck_chain",
    "intel-tdx-sgx.md T02",
    async (j) => void (j.chain = await findPckChain(requirePck(j.quote, j.certifying), j.quote, j.given)),
    ({ chain: { anchor } }) => ["a pinned Intel SGX Root CA", `${anchor.name}, key ${anchor.pin}`],
  ],
  [
    "revocation",
    "intel-tdx-sgx.md T07",
    judgeRevocation,
    (j) => (j.crls ? ["PCK certificate and its CA not listed", `not listed, CRLs of ${j.crls.map(datesOf).join("; ")}`] : leftOut(j, "revocation", "current CRLs of both CAs")),
  ],
  [
    "tcb_info",
    "intel-tdx-sgx.md T08, T09",
    async (j) => {
      if (!reasons(j, "tcb")) j.tcbInfo = await tcbInfoFor(j);
    },
    (j) => (j.tcbInfo ? [`signed for FMSPC ${shown(j.tcbInfo.fmspc)}`, dates(j.tcbInfo)] : leftOut(j, "tcb", "a current TCB info")),
  ],
  [
    "qe_identity",
    "intel-tdx-sgx.md T08, T10",
    judgeQe,
    (j) => [`MRSIGNER ${shown(j.quote.qeReport.mr_signer)}`, j.qeIdentity ? dates(j.qeIdentity) : `compared with constants: ${reasons(j, "tcb")}`],
  ],
  [
    "module",
    "intel-tdx-sgx.md T11",
    (j) => {
      if (j.tcbInfo && j.quote.td) j.module = findModule(j.tcbInfo, j.quote.td);
    },
    (j) => {
      const { td } = j.quote;
      const expected = "the module that TCB info describes";
      if (!td) return [expected, "SGX has none", "not evaluated"];
      return j.tcbInfo ? [expected, `version ${td.tee_tcb_svn[1]}, SVN ${td.tee_tcb_svn[0]}`] : leftOut(j, "tcb", expected);
    },
  ],
  [
    "tcb",
    "intel-tdx-sgx.md T12",
    judgeTcb,
    (j) => {
      const expected = "a level that covers the platform, not Revoked";
      const { evaluation } = j;
      return evaluation ? [expected, [evaluation.tcb_status, ...evaluation.advisory_ids].join(", ")] : leftOut(j, "tcb", expected);
    },
  ],
];
/** From here on a missing piece does not keep a later one from being called false. */
const FIRST_OF_COLLATERAL = STEPS.findIndex(([name]) => name === "revocation");

/** Verify a TDX or SGX quote; the refusal carries every check. */
async function verifyIntelQuote(quote: Quote, given: Given): Promise<Verified> {
  const { tee, version, paddingBytes } = quote;
  const judgement = { quote, given, candidates: [] } as unknown as Judgement;
  const told = `version ${version}, ${paddingBytes} bytes of padding`;
  const checks: Check[] = [check(`${tee}.format`, "pass", "a known version, every length exact", told, "intel-tdx-sgx.md T01")];
  // (1) Take the steps, until one fails behind which none can be taken.
  const failures: AttestError[] = [];
  const early: Told = ["", "an earlier check failed", "not evaluated"];
  let isOver = false;
  for (const [number, [name, clause, run]] of STEPS.entries()) {
    const [made, failure] = await taken(`${tee}.${name}`, clause, async () => {
      if (!isOver) await run(judgement);
      return failures.length ? early : ["", "holds"];
    });
    checks.push(made);
    if (failure) failures.push(failure);
    isOver ||= failure !== undefined && (number < FIRST_OF_COLLATERAL || failure.kind !== "endorsement");
  }
  const [worst] = failures.sort((a, b) => a.exitCode - b.exitCode);
  if (worst) throw Object.assign(worst, { checks });
  // (2) Tell them, once everything is known that some of them are told by.
  const passed = STEPS.map(([name, clause, , tell]) => {
    const [expected, got, outcome = "pass"] = tell(judgement);
    return check(`${tee}.${name}`, outcome, expected, got, clause);
  });
  const { evaluation, chain: { anchor, pck, issuer, root } } = judgement;
  return {
    kind: tee,
    simulated: anchor.simulated,
    checks: [...checks.slice(0, 1), ...passed],
    claims: claimsOf(quote, pck, evaluation),
    chain: [pck.certificate, issuer, root],
  };
}

/** Read a quote, as the row of its media type wants it. */
export function readIntelQuote(value: Bytes): ParsedCpu {
  const quote = parseQuote(value);
  const { td, tee: kind, report_data: reportData } = quote;
  return { kind, reportData, verify: (given) => verifyIntelQuote(quote, given), ...(td && { registers: registersOf(td) }) };
}

function registersOf({ rtmr0, rtmr1, rtmr2, rtmr3 }: NonNullable<Quote["td"]>): Registers {
  return { log: "ccel", values: new Map([rtmr0, rtmr1, rtmr2, rtmr3].map((value, i) => [`RTMR${i}`, value])) };
}
