/** Verification of all evidence of one Attester in one call, in the order of `attest.verification`. */

import type { TrustAnchors } from "./anchors";
import type { Result } from "./api";
import type { JudgedAttachments } from "./attachment/attachment";
import { parseBinding } from "./binding";
import { shownChain } from "./certificates";
import { type Check, type Unchecked, ofItem } from "./checks";
import type { Claims } from "./claims";
import { type Expected, type Presented, judgeComposite } from "./composite";
import { type Evidence, type Item, MEDIA, evidenceDigest } from "./envelope";
import { AttestError, need, refusalOf } from "./errors";
import type { DstackJudgement } from "./dstack/judgement";
import type { ReplayedLog } from "./eventlog/eventlog";
import type { Given, JudgedSet, ParsedCpu, ParsedDevice, Registers, Verified } from "./evidence";
import { CPU_FORMATS, DEVICE_FORMATS, readItems } from "./formats";
import { merged } from "./pool";
import { Procedure, reasonsOf, worstOf } from "./procedure";
import type { NamedBytes } from "./recognised";
import { readEndorsements } from "./recognition";
import { shown } from "./shown";
import { part } from "./parts";
import type { TdReport } from "./tdx/structure";

/** The part of a result about genuine evidence, and every check. */
export type VerifiedEvidence = Pick<
  Result,
  "items" | "certificates" | "simulated" | "freshness" | "evidence_digest" | "ignored_items" | "warnings"
> & {
  readonly checks: readonly Check[];
};

/** The content of the evidence, read; nothing is judged yet. */
interface Read {
  /** With the name of its item. */
  readonly cpu: readonly [name: string, parsed: ParsedCpu] | undefined;
  /** In the order of the evidence. */
  readonly devices: readonly (readonly [name: string, parsed: ParsedDevice])[];
  /** Replays the event log to the CPU's registers, where one came along. */
  readonly replay: Replay | undefined;
  /** Judges what is attached to the CPU's evidence, where something came along. */
  readonly attached: ((anchors: TrustAnchors) => Promise<JudgedAttachments>) | undefined;
  /** Judges dstack's log and statements by the TD report, where any came along. */
  readonly dstack: (() => Promise<DstackJudgement>) | undefined;
  readonly presented: Presented;
}

/** Judges a log: what it states, or a refusal. `tolerant` leaves a register unjudged that may have grown. */
type Replay = (tolerant: boolean) => Promise<ReplayedLog>;

/** The items of one Attester, each verified or refused by the procedure of its format. */
interface JudgedItems {
  readonly verified: ReadonlyMap<string, Verified>;
  readonly refused: ReadonlyMap<string, AttestError>;
}

const DOCUMENTS: readonly string[] = [MEDIA.providerDocument, MEDIA.providerKeys];
const LOGS: readonly string[] = [MEDIA.eventLog, MEDIA.dstackLog];
const ATTACHMENTS: readonly string[] = [MEDIA.attestedCertificate, MEDIA.committedData, MEDIA.uvmEndorsement];
const ACCOMPANYING: readonly string[] = [
  MEDIA.binding,
  MEDIA.endorsements,
  ...LOGS,
  MEDIA.dstackStatements,
  ...ATTACHMENTS,
];

/**
 * Verify all evidence of one Attester. Throws an `AttestError` with every check that was made; where several refusals
 * apply, malformed comes before does-not-hold before endorsements.
 */
export async function verify(evidence: Evidence, given: Given, expected: Expected): Promise<VerifiedEvidence> {
  if (!evidence.some(({ essence }) => DOCUMENTS.includes(essence))) return verifyMachine(evidence, given, expected);
  const { verifyDocument } = await part(import("./providers/providers"));
  const endorsements = merged(await readEndorsements(endorsementFiles(evidence), given.at), given.endorsements);
  const verified = await verifyDocument(evidence, expected, (machine) =>
    verifyMachine(machine, { ...given, endorsements }, {}),
  );
  return { ...verified, evidence_digest: shown(await evidenceDigest(evidence)), ignored_items: [] };
}

/** Verify the evidence of one machine, in the same way. */
async function verifyMachine(evidence: Evidence, given: Given, expected: Expected): Promise<VerifiedEvidence> {
  // (1) Read everything before anything is judged. What vendors say and came with it is a candidate like all others.
  const read = await readAll(evidence);
  const endorsements = merged(await readEndorsements(endorsementFiles(evidence), given.at), given.endorsements);
  // (2) Judge what holds the items together, then each item; one refusal does not hide another.
  const composite = await judgeComposite(read.presented, expected);
  const { verified, refused } = await judgeItems(read, { ...given, endorsements });
  // (3) Judge the log of a machine and what is attached, be its other evidence refused or not.
  const log = await judgeLog(read.replay, given.unchecked);
  const dstack = (await read.dstack?.()) ?? { ...NOTHING_JUDGED, claims: undefined };
  const attached = (await read.attached?.(given.anchors)) ?? NOTHING_ATTACHED;
  const claimed = withClaims(verified, read.cpu, dstack.claims ?? log.claims, attached);
  const [ofCpu, ofDevices] = partedBy(refused, read.cpu);
  const ofMachine = [...ofCpu, ...log.failures, ...dstack.failures, ...attached.failures];
  const failures = [...composite.failures, ...ofMachine, ...ofDevices];
  // (4) Judge the devices as a set, whatever else is wrong with them.
  const set = await judgeSets(read.devices, claimed, { ...given, endorsements });
  // (5) The checks of the whole first, then of refused items, then of genuine ones. The refusal that comes first in the
  // order of exit codes speaks for all and carries every check.
  const ofItems = [...refused, ...claimed].flatMap(([name, item]) => ofItem(item.checks, name));
  const beside = [...log.checks, ...dstack.checks, ...attached.checks, ...set.checks];
  const checks = [...composite.checks, ...beside, ...ofItems];
  const worst = worstOf([...failures, ...set.failures]);
  if (worst) throw Object.assign(worst, { checks });
  const facts = await factsOf(evidence, claimed, read.presented);
  return { ...facts, freshness: composite.freshness, checks };
}

const NOTHING_JUDGED: JudgedSet = { checks: [], failures: [] };
const NOTHING_ATTACHED: JudgedAttachments = { ...NOTHING_JUDGED, claims: {}, simulated: false };

/** The refusals of the CPU, and of the devices beside it. */
function partedBy(
  refused: ReadonlyMap<string, AttestError>,
  cpu: Read["cpu"],
): readonly [ofCpu: readonly AttestError[], ofDevices: readonly AttestError[]] {
  const ofCpu = [...refused].filter(([name]) => name === cpu?.[0]);
  const ofDevices = [...refused].filter(([name]) => name !== cpu?.[0]);
  // Devices have no order: of several that are refused, the code decides, not the order of their files.
  const byCode = (one: AttestError, other: AttestError): number =>
    Number(one.code > other.code) - Number(one.code < other.code);
  return [ofCpu.map(([, failure]) => failure), ofDevices.map(([, failure]) => failure).sort(byCode)];
}

/** The statements of verified evidence. */
async function factsOf(
  evidence: Evidence,
  verified: ReadonlyMap<string, Verified>,
  { others }: Presented,
): Promise<Omit<VerifiedEvidence, "checks" | "freshness">> {
  const chains = await Promise.all([...verified].map(([name, { chain }]) => shownChain(name, chain)));
  return {
    items: [...verified].map(([name, { kind, claims }]) => ({ name, kind, claims })),
    certificates: chains.flat(),
    simulated: [...verified.values()].some(({ simulated }) => simulated),
    evidence_digest: shown(await evidenceDigest(evidence)),
    warnings: [],
    ignored_items: others.map(({ name }) => name).filter((name) => !verified.has(name)),
  };
}

// -- (1) reading

const endorsementFiles = (evidence: Evidence): readonly NamedBytes[] =>
  evidence.filter(({ essence }) => essence === MEDIA.endorsements).map(({ name, value }) => ({ name, bytes: value }));

async function readAll(evidence: Evidence): Promise<Read> {
  const cpus = evidence.filter(({ essence }) => CPU_FORMATS.has(essence));
  const others = evidence.filter(({ essence }) => DEVICE_FORMATS.has(essence));
  requireSupported(evidence, cpus.length + others.length);
  const item = onlyOne(cpus);
  const [cpu] = await readItems(item ? [item] : [], CPU_FORMATS);
  const devices = await readItems(others, DEVICE_FORMATS);
  const logs = await readLogs(evidence, cpu?.[1]);
  const attached = await readAttached(evidence, cpu?.[1]);
  const bound = onlyOne(evidence.filter(({ essence }) => essence === MEDIA.binding));
  const binding = bound && parseBinding(bound.value);
  const unbound = evidence.filter((each) => each !== item && !ACCOMPANYING.includes(each.essence));
  const deviceNonces = devices.map(([name, { nonce }]) => [name, nonce] as const);
  const presented = {
    reportData: cpu?.[1].reportData,
    nonce: cpu?.[1].nonce,
    binding,
    others: unbound,
    deviceNonces,
    isNonceSized: devices.some(([, { hasNonceOfAnyLength = false }]) => !hasNonceOfAnyLength),
  };
  return { cpu, devices, ...logs, attached, presented };
}

async function readAttached(evidence: Evidence, cpu: ParsedCpu | undefined): Promise<Read["attached"]> {
  const items = evidence.filter(({ essence }) => ATTACHMENTS.includes(essence));
  return items.length ? (await part(import("./attachment/attachment"))).readAttachments(items, cpu) : undefined;
}

function requireSupported(evidence: Evidence, count: number): void {
  const known = [...CPU_FORMATS.keys(), ...DEVICE_FORMATS.keys()];
  const got = evidence.map(({ essence }) => essence);
  need(count, "unsupported", "evidence-unsupported", known, got);
}

function onlyOne(items: readonly Item[]): Item | undefined {
  const names = items.map(({ name }) => name);
  need(items.length < 2, "malformed", "evidence-ambiguous", "one", names, { field: items[0]?.essence });
  return items[0];
}

/** Read the log and the statements of dstack: what cannot be read is malformed evidence, and no check of it. */
async function readLogs(evidence: Evidence, cpu: ParsedCpu | undefined): Promise<Pick<Read, "replay" | "dstack">> {
  const log = onlyOne(evidence.filter(({ essence }) => LOGS.includes(essence)));
  const stated = onlyOne(evidence.filter(({ essence }) => essence === MEDIA.dstackStatements));
  const own = log?.essence === MEDIA.dstackLog ? log : undefined;
  return {
    replay: log && !own ? await readLog(log, measuredBy(cpu?.registers, cpu)) : undefined,
    dstack: (own ?? stated) && (await readOfDstack(own, stated, measuredBy(cpu?.td, cpu))),
  };
}

/** Require what a log or a statement is compared with. */
function measuredBy<T>(found: T | undefined, cpu: ParsedCpu | undefined): T {
  need(found, "unsupported", "eventlog-without-registers", "evidence with registers", cpu?.kind, { field: "eventlog" });
  return found;
}

async function readOfDstack(log: Item | undefined, stated: Item | undefined, td: TdReport): Promise<Read["dstack"]> {
  const { readDstack } = await part(import("./dstack/dstack"));
  return readDstack(log?.value, stated?.value, td);
}

async function readLog({ value }: Item, registers: Registers): Promise<Replay> {
  const { readEventLog } = await part(import("./eventlog/eventlog"));
  return readEventLog(value, registers);
}

// -- (2) to (4) judging

/** They do not wait for each other: most of the time goes to and fro between here and where signatures are computed. */
async function judgeItems({ cpu, devices }: Read, given: Given): Promise<JudgedItems> {
  const all = [...(cpu ? [cpu] : []), ...devices];
  const judged = await Promise.all(
    all.map(async ([name, parsed]) => [name, await refusalOf(() => parsed.verify(given))] as const),
  );
  const verified = new Map<string, Verified>();
  const refused = new Map<string, AttestError>();
  for (const [name, found] of judged) {
    if (found instanceof AttestError) refused.set(name, found);
    else verified.set(name, found);
  }
  return { verified, refused };
}

interface JudgedLog extends JudgedSet {
  readonly claims: Claims | undefined;
}

/** Require that the log, if one came along, replays to the registers and that its data is what was measured. */
async function judgeLog(replay: Replay | undefined, unchecked: readonly Unchecked[]): Promise<JudgedLog> {
  if (!replay) return { ...NOTHING_JUDGED, claims: undefined };
  const decisions = unchecked.filter(({ check }) => check === "eventlog");
  const procedure = new Procedure(LOG_STEPS, { isIndependent: true });
  const claims = await procedure.attempt("replay", async (step) => {
    const { events, unjudged, claims: stated } = await replay(decisions.length > 0);
    const got = `${events} events`;
    if (!unjudged.length) step.tell("the registers", got);
    else step.tell(reasonsOf(decisions), `${got}, but not to ${unjudged.join(", ")}`, "not evaluated");
    return stated;
  });
  return { ...procedure.outcome(), claims };
}

const LOG_STEPS = {
  replay: ["eventlog.replay", "TCG PC Client Platform Firmware Profile; Intel TDX module, TDG.MR.RTMR.EXTEND"],
} as const;

/** The log of a machine is one of its claims, and so is what is attached to it. */
function withClaims(
  verified: ReadonlyMap<string, Verified>,
  cpu: Read["cpu"],
  eventlog: Claims | undefined,
  { claims, simulated }: JudgedAttachments,
): ReadonlyMap<string, Verified> {
  const name = cpu?.[0] ?? "";
  const found = verified.get(name);
  if (!found) return verified;
  const all = { ...found.claims, ...(eventlog && { eventlog }), ...claims };
  return new Map([...verified, [name, { ...found, claims: all, simulated: found.simulated || simulated }]]);
}

/** Judge the devices of each format together: every one whose signature and chain hold. */
async function judgeSets(
  devices: Read["devices"],
  verified: ReadonlyMap<string, Verified>,
  given: Given,
): Promise<JudgedSet> {
  const judges = new Set(devices.map(([, { judgeSet }]) => judgeSet));
  const sets = await Promise.all(
    [...judges].map(async (judgeSet) => {
      const own = devices.filter(([, device]) => device.judgeSet === judgeSet);
      const members = await Promise.all(
        own.map(async ([name, device]) => [name, verified.get(name) ?? (await device.authenticate(given))] as const),
      );
      const known = members.flatMap(([name, member]) => (member ? [[name, member] as const] : []));
      const strangers = members.filter(([, member]) => !member).map(([name]) => name);
      // They may be what is missing.
      const reason = `not evaluated, because signature or chain do not verify: ${strangers.join(", ")}`;
      const more: readonly Unchecked[] = strangers.length ? [{ check: "topology", reason }] : [];
      return judgeSet(known, [...given.unchecked, ...more]);
    }),
  );
  return { checks: sets.flatMap(({ checks }) => checks), failures: sets.flatMap(({ failures }) => failures) };
}
