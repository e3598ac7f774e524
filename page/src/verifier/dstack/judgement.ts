/**
 * Judgement of dstack's log and statements by a TD report, as `attest.evidence.dstack.judgement`. The quote itself is
 * verified elsewhere; what is concluded here counts once its signature holds.
 */

import { type Bytes, equal } from "../bytes";
import type { Claims } from "../claims";
import { sha384 } from "../crypto";
import { AttestError, need, refusalOf, refuse } from "../errors";
import { factsDocument } from "../eventlog/facts";
import { type VerifiedEventLog, verifyEventLog } from "../eventlog/replay";
import type { JudgedSet } from "../evidence";
import { Procedure } from "../procedure";
import type { TdReport } from "../tdx/structure";
import { composeHashOf, judgeCompose } from "./compose";
import { type DstackFacts, NO_FACTS, dstackDocument, readFacts } from "./facts";
import { type Statements, requireAgreement, signedValues } from "./statements";
import type { DstackLog } from "./structure";

const DSTACK_STEPS = {
  log: ["dstack.log", "dstack, event log of RTMR3"],
  events: ["dstack.events", "dstack, events of RTMR3"],
  replay: ["dstack.replay", "dstack, event log of RTMR3; Intel TDX module, TDG.MR.RTMR.EXTEND"],
  compose: ["dstack.compose", "dstack, compose hash and MRCONFIGID"],
  statements: ["dstack.statements", "dstack, Info and GetQuote"],
} as const;

const NO_LOG = "no event log was given";
const EARLIER = "an earlier check failed";

/** The outcome, and what a log that replays states. */
export interface DstackJudgement extends JudgedSet {
  readonly claims: Claims | undefined;
}

/** Judge a log and statements by the report of a quote; without a log, by the first one that the statements repeat. */
export async function judgeDstack(
  td: TdReport,
  given: DstackLog | undefined,
  statements: Statements,
): Promise<DstackJudgement> {
  const log = given ?? statements.logs[0]?.[1];
  const procedure = new Procedure(DSTACK_STEPS, { isIndependent: true });
  await procedure.attempt("log", (step) => {
    const { events, form } = step.need(log, NO_LOG);
    step.tell("a JSON event log of RTMR0 to RTMR3", `${events.length} events, form ${form}`);
  });
  const read = await procedure.attempt("events", async (step) => {
    const known = step.need(log, NO_LOG);
    await requireDigests(known);
    const found = await readFacts(known);
    step.tell("digests of dstack's events, each event once", "they are");
    return found;
  });
  const verified = await procedure.attempt("replay", async (step) => {
    const known = step.need(log, NO_LOG);
    const found = await verifyEventLog(known, registersOf(td), false);
    step.tell("the registers of the quote", `${known.events.length} events`);
    return found;
  });
  const facts = log ? read : NO_FACTS;
  await procedure.attempt("compose", async (step) => {
    step.tell(...(await judgeCompose(td.mr_config_id, step.need(facts, EARLIER), statements.appComposes)));
  });
  await procedure.attempt("statements", async (step) => {
    const known = step.need(facts, EARLIER);
    for (const [path, repeated] of statements.logs) await requireSameLog(path, repeated, td);
    const composeHash = known.digests.get("compose_hash") ?? composeHashOf(td.mr_config_id);
    const count = requireAgreement(statements, await signedValues(td, known, composeHash));
    step.tell("no contradiction to quote and log", `${count} statements agree`);
  });
  const outcome = procedure.outcome();
  return { ...outcome, claims: log && facts && verified && (await claimsOf(log, facts, verified)) };
}

async function claimsOf(log: DstackLog, facts: DstackFacts, verified: VerifiedEventLog): Promise<Claims> {
  const document = await factsDocument(verified);
  return { ...document, form: log.form, events: log.events.length, dstack: dstackDocument(facts) };
}

const registersOf = ({ rtmr0, rtmr1, rtmr2, rtmr3 }: TdReport): ReadonlyMap<string, Bytes> =>
  new Map([rtmr0, rtmr1, rtmr2, rtmr3].map((value, i) => [`RTMR${i}`, value]));

/** Require the digest of each event of dstack to be that of its name and payload: `dstack-event-mismatch`. */
async function requireDigests({ events }: DstackLog): Promise<void> {
  for (const { isRuntime, data, digest, number } of events) {
    const computed = isRuntime ? await sha384(data) : digest;
    const field = `events[${number - 1}].digest`;
    need(equal(computed, digest), "verification", "dstack-event-mismatch", digest, computed, { field });
  }
}

/** Require a log that statements repeat to replay as well: `dstack-statement-mismatch`. */
async function requireSameLog(field: string, log: DstackLog, td: TdReport): Promise<void> {
  const found = await refusalOf(async () => {
    await requireDigests(log);
    await verifyEventLog(log, registersOf(td), false);
  });
  if (found instanceof AttestError) {
    refuse("binding", "dstack-statement-mismatch", found.facts.expected, found.facts.got, { field });
  }
}
