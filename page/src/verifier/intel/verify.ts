/**
 * Verification that a quote is genuine: from Intel hardware, complete, unrevoked, of a known platform. T02 to T12.
 *
 * `INTEL_STEPS` is the clause list. First what needs no collateral, in an order in which a forged quote is called false
 * before anything is called missing; then what Intel's collateral says, every step of it, so that a stale document
 * hides no revocation.
 *
 * Spec: intel-tdx-sgx.md 21.
 */

import { type Bytes, concat, equal, hex, rfc3339 } from "../bytes";
import { bestCandidate } from "../chain";
import type { Crl } from "../crl";
import { ecSpki, ecdsaHolds, sha256 } from "../crypto";
import { AttestError, need, refusal, refusalOf, refuse } from "../errors";
import type { Given, ParsedCpu, Registers, Verified } from "../evidence";
import { type OpenStep, Procedure, type Told, reasonsOf, tolerated } from "../procedure";
import {
  type PckChain,
  embeddedCertificates,
  findPckChain,
  listedIn,
  pckCandidates,
  requireNotListed,
  requireP256,
} from "./chain";
import { claimsOf } from "./claims";
import { findQeIdentity, findTcbInfo } from "./collateral";
import {
  type TcbEvaluation,
  evaluateTcb,
  findModule,
  moduleLevel,
  platformLevels,
  requireIntelQe,
  requireNoneRevoked,
  requireQe,
  runningLevel,
  runningModule,
} from "./evaluation";
import type { PckCertificate } from "./pck";
import { type Quote, parseQuote } from "./quote";
import { type Shown, shown } from "../shown";
import type { Dated } from "./tcb_info";

/** Every check of a quote, in order; `tdx.` or `sgx.` stands before each id. */
const INTEL_STEPS = {
  format: ["format", "Intel DCAP, ECDSA quote format"],
  pckCertificate: ["pck_certificate", "Intel SGX PCK certificate"],
  qeReportSignature: ["qe_report_signature", "Intel DCAP, QE report signature"],
  attestationKey: ["attestation_key", "Intel DCAP, QE report data"],
  quoteSignature: ["quote_signature", "Intel DCAP, ECDSA quote signature"],
  pckChain: ["pck_chain", "Intel SGX PCK certificate and CRL profile; RFC 5280, 6.1"],
  revocation: ["revocation", "Intel SGX PCK certificate and CRL profile; RFC 5280, 6.3"],
  tcbInfo: ["tcb_info", "Intel PCS, TCB info"],
  qeIdentity: ["qe_identity", "Intel PCS, QE identity"],
  module: ["module", "Intel PCS, TDX module identities"],
  tcb: ["tcb", "Intel PCS, TCB levels"],
} as const;

type IntelProcedure = Procedure<typeof INTEL_STEPS>;

/** Read a quote, as the row of its media type wants it. */
export function readIntelQuote(value: Bytes): ParsedCpu {
  const quote = parseQuote(value);
  const registers = quote.td ? { registers: registersOf(quote.td), td: quote.td } : {};
  return {
    kind: quote.tee,
    reportData: quote.report_data,
    signed: quote.signedBytes,
    machine: machineOf(quote),
    verify: (given) => verifyIntelQuote(quote, given),
    ...registers,
  };
}

/** The report without its report data, and the key that signed it, as text. */
function machineOf({ td, enclave, attestationKey }: Quote): string {
  const { report_data: _, ...others } = (td ?? enclave)!;
  return shown([...Object.values<Shown>(others), attestationKey]);
}

function registersOf({ rtmr0, rtmr1, rtmr2, rtmr3 }: NonNullable<Quote["td"]>): Registers {
  const values = [rtmr0, rtmr1, rtmr2, rtmr3];
  return { log: "ccel", values: new Map(values.map((value, i) => [`RTMR${i}`, value])) };
}

/** Verify a TDX or SGX quote; the refusal carries every check. */
async function verifyIntelQuote(quote: Quote, given: Given): Promise<Verified> {
  const procedure = new Procedure(INTEL_STEPS, { prefix: `${quote.tee}.` });
  const chain = await judgeAuthenticity(procedure, quote, given);
  await procedure.attempt("revocation", async (step) => {
    step.tell(...(await requireNotRevoked(chain, given)));
  });
  const evaluation = given.unchecked.some(({ check }) => check === "tcb")
    ? await judgeUncheckedTcb(procedure, quote, chain, given)
    : await judgeTcb(procedure, quote, chain, given);
  return {
    kind: quote.tee,
    simulated: chain.anchor.simulated,
    checks: procedure.finish(),
    claims: claimsOf(quote, chain.pck, evaluation),
    chain: [chain.pck.certificate, chain.issuer, chain.root],
  };
}

// -- T02 to T06: who made the quote

/** Take the steps that need no collateral: each stands on the one before. */
async function judgeAuthenticity(procedure: IntelProcedure, quote: Quote, given: Given): Promise<PckChain> {
  await procedure.step("format", (step) => {
    step.tell("a quote of version 3 to 5", `version ${quote.version}, ${quote.paddingBytes} bytes of padding`);
  });
  const { embedded, candidates } = await procedure.step("pckCertificate", async (step) => {
    const own = embeddedCertificates(quote);
    const found = await pckCandidates(quote, own, given);
    step.tell("a PCK certificate of Intel's", `FMSPC ${found.map(({ fmspc }) => hex(fmspc)).join(", ") || "none"}`);
    return { embedded: own, candidates: found };
  });
  const certifying = await procedure.step("qeReportSignature", async (step) => {
    const found = await certifyingPcks(quote, candidates);
    const name = found[0]?.certificate.name;
    step.tell("ECDSA P-256 with SHA-256 by the PCK", name === undefined ? "no PCK" : `verifies with ${name}`);
    return found;
  });
  await procedure.step("attestationKey", async (step) => {
    const expected = await keyDigest(quote);
    requireAttestationKey(expected, quote.qeReport.report_data);
    step.tell(expected, quote.qeReport.report_data);
  });
  await procedure.step("quoteSignature", async (step) => {
    await requireQuoteSignature(quote);
    step.tell("ECDSA P-256 with SHA-256 by the attestation key", "verifies");
  });
  return procedure.step("pckChain", async (step) => {
    const chainOf = (pck: PckCertificate): Promise<PckChain> => findPckChain(pck, embedded, given);
    const pck = await bestCandidate(certifying, chainOf, async (each) =>
      requireNotListed(given.endorsements.crls, (await chainOf(each)).issuer, each.certificate, given.at),
    );
    // A quote with certification data 1 to 4 brings none along.
    const chain = await chainOf(
      pck ?? refuse("endorsement", "pck-certificate-missing", "a certificate", `type ${quote.certificationType}`),
    );
    step.tell("a pinned Intel SGX Root CA", `${chain.anchor.name}, key ${chain.anchor.pin}`);
    return chain;
  });
}

/** T04: return the PCK certificates whose key signed the QE's report; their absence is reported later. */
async function certifyingPcks(
  { qeReportSignature, report }: Quote,
  candidates: readonly PckCertificate[],
): Promise<readonly PckCertificate[]> {
  const certifying: PckCertificate[] = [];
  const refused: AttestError[] = [];
  for (const pck of candidates) {
    const { certificate } = pck;
    const holds = await refusalOf(() => {
      requireP256(certificate);
      return ecdsaHolds(certificate.spki, "SHA-256", qeReportSignature, report);
    });
    if (holds instanceof AttestError) refused.push(holds);
    else if (holds) certifying.push(pck);
  }
  if (certifying.length || !candidates.length) return certifying;
  throw refused[0] ?? refusal("signature", "qe-report-signature-invalid", "a signature by the PCK", "another");
}

/** T05: REPORTDATA of the QE's report: the digest of attestation key and authentication data, then zeros. */
async function keyDigest({ attestationKey, qeAuthData }: Quote): Promise<Bytes> {
  return concat(await sha256(concat(attestationKey, qeAuthData)), new Uint8Array(32));
}

function requireAttestationKey(expected: Bytes, got: Bytes): void {
  need(equal(expected, got), "binding", "attestation-key-mismatch", expected, got, { field: "REPORTDATA" });
}

/** T06: the attestation key, which is a point of P-256, signed header and body. */
async function requireQuoteSignature({ attestationKey, signature, signedBytes }: Quote): Promise<void> {
  const spki = ecSpki("P-256", attestationKey);
  const holds = await refusalOf(() => ecdsaHolds(spki, "SHA-256", signature, signedBytes));
  const isPoint = !(holds instanceof AttestError);
  need(isPoint, "signature", "attestation-key-invalid", "a point of P-256", attestationKey);
  need(holds, "signature", "quote-signature-invalid", `a signature by ${hex(attestationKey)}`, "another");
}

// -- T07: revocation

/** A serial on any genuine list is revoked, even if the list is old; the dates are compared after that. */
async function requireNotRevoked(chain: PckChain, { endorsements, at, unchecked }: Given): Promise<Told> {
  const { pck, issuer, root } = chain;
  const { crls } = endorsements;
  const found = [await listedIn(crls, issuer, pck.certificate, at), await listedIn(crls, root, issuer, at)];
  const refused = found.filter((each) => each instanceof AttestError);
  const failure = refused.find(({ kind }) => kind === "revoked") ?? refused[0];
  const lists = found.map((each) => (each instanceof AttestError ? each.code : listText(each))).join("; ");
  if (!failure) return ["not listed", lists];
  // Only the absence of a current list can be tolerated; a revocation on any list still counts.
  return [`current CRLs, not ${lists}`, reasonsOf(tolerated(failure, unchecked, "revocation")), "not evaluated"];
}

const listText = ({ thisUpdate, nextUpdate }: Crl): string => `CRL of ${rfc3339(thisUpdate)} to ${rfc3339(nextUpdate)}`;

// -- T08 to T12: what Intel's collateral says of the platform

const NO_MODULE = "SGX has none";
const EARLIER = "an earlier check failed";

/** Take the steps that judge the platform by TCB info and QE identity. */
async function judgeTcb(
  procedure: IntelProcedure,
  quote: Quote,
  chain: PckChain,
  given: Given,
): Promise<TcbEvaluation | undefined> {
  const { tee, td, qeReport } = quote;
  const atHand = { endorsements: given.endorsements, root: chain.root, at: given.at };
  const info = await procedure.attempt("tcbInfo", async (step) => {
    const found = await findTcbInfo(tee, chain.pck, atHand);
    tellDates(step, found);
    return found;
  });
  const qe = await procedure.attempt("qeIdentity", async (step) => {
    const identity = await findQeIdentity(tee, atHand);
    const level = requireQe(identity, qeReport);
    tellDates(step, identity);
    return { identity, level };
  });
  const module = await procedure.attempt("module", (step) => {
    const report = step.need(td, NO_MODULE);
    const identity = findModule(step.need(info, EARLIER), report);
    step.tell(`a TDX module signed by ${hex(report.mr_signer_seam)}`, `TEE_TCB_SVN ${hex(report.tee_tcb_svn)}`);
    return identity;
  });
  return procedure.attempt("tcb", async (step) => {
    // A piece that is missing or stale hides nothing that another one says.
    if (!info || !qe) await requireNothingAgainst(quote, chain, given);
    const { identity, level } = step.need(qe, EARLIER);
    const found = await evaluateTcb(step.need(info, EARLIER), identity, { pck: chain.pck, td, module, qeLevel: level });
    step.tell("any status but Revoked", [found.tcb_status, ...found.advisory_ids]);
    return found;
  });
}

function tellDates(step: OpenStep, { tcbEvaluationDataNumber, issueDate, nextUpdate }: Dated): void {
  const dates = `${rfc3339(issueDate)} to ${rfc3339(nextUpdate)}`;
  step.tell("signed by Intel and current", `evaluation data number ${tcbEvaluationDataNumber}, ${dates}`);
}

/**
 * Take the same steps where the TCB is left unchecked: only what genuine, current collateral says against it counts.
 */
async function judgeUncheckedTcb(
  procedure: IntelProcedure,
  quote: Quote,
  chain: PckChain,
  given: Given,
): Promise<TcbEvaluation | undefined> {
  const reasons = reasonsOf(given.unchecked.filter(({ check }) => check === "tcb"));
  await procedure.attempt("tcbInfo", (step) => step.tell("", reasons, "not evaluated"));
  await procedure.attempt("qeIdentity", (step) => {
    requireIntelQe(quote.tee, quote.qeReport);
    step.tell(`MRSIGNER ${hex(quote.qeReport.mr_signer)}`, reasons);
  });
  await procedure.attempt("module", (step) => step.tell("", quote.td ? reasons : NO_MODULE, "not evaluated"));
  await procedure.attempt("tcb", async (step) => {
    await requireNothingAgainst(quote, chain, given);
    step.tell("", reasons, "not evaluated");
  });
  return undefined;
}

/**
 * Refuse a platform by genuine collateral against it, each document on its own, be it out of date. That a document is
 * missing, or that none covers this platform, is not negative.
 */
async function requireNothingAgainst(
  { tee, td, qeReport }: Quote,
  { pck, root }: PckChain,
  given: Given,
): Promise<void> {
  const atHand = { endorsements: given.endorsements, root, at: given.at, isUndated: true };
  const identity = await genuine(findQeIdentity(tee, atHand));
  if (identity) await passing(["tcb-not-supported"], () => requireNoneRevoked([requireQe(identity, qeReport)]));
  const info = await genuine(findTcbInfo(tee, pck, atHand));
  if (!info) return;
  // A module that is newer than the document is not in it, which is held against no platform.
  const isCurrent = info.issueDate <= given.at && given.at <= info.nextUpdate;
  await passing(["tcb-not-supported", ...(isCurrent ? [] : ["tdx-module-unknown"])], () => {
    if (td) requireNoneRevoked([moduleLevel(findModule(info, td), td)]);
  });
  const now = runningModule(td);
  await passing(["tcb-not-supported", "tdx-module-unknown"], () => {
    if (now) requireNoneRevoked([runningLevel(info, now)]);
  });
  await passing(["tcb-not-supported"], () => requireNoneRevoked([platformLevels(info, pck, td).platform]));
}

/** Return what was found; undefined when it is missing or not genuine. */
async function genuine<T>(found: Promise<T>): Promise<T | undefined> {
  const document = await refusalOf(() => found);
  if (!(document instanceof AttestError)) return document;
  if (!["endorsement", "signature", "chain"].includes(document.kind)) throw document;
  return undefined;
}

/** Let refusals of these codes pass. */
async function passing(codes: readonly string[], check: () => void): Promise<void> {
  const refused = await refusalOf(check);
  if (refused instanceof AttestError && !codes.includes(refused.code)) throw refused;
}
