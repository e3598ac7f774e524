/** Is this evidence genuine? One call over all evidence of one Attester: `attest.verification`, in the same order. */

import type { Result } from "./api";
import { parseBinding } from "./binding";
import { shownChain } from "./certificates";
import { type Check, type Unchecked, ofItem, taken } from "./checks";
import type { Claims } from "./claims";
import { type Expected, type Presented, judgeComposite } from "./composite";
import { type Evidence, type Item, MEDIA, evidenceDigest } from "./envelope";
import { AttestError, need, refusalOf, shown } from "./errors";
import {
  CPU_FORMATS,
  DEVICE_FORMATS,
  type Given,
  type ParsedCpu,
  type ParsedDevice,
  type Registers,
  type Verified,
} from "./formats";
import { judgeSet } from "./gpu/gpu";
import { eventLogFormat } from "./lazy";
import { merged } from "./pool";
import { readEndorsements } from "./recognition";

/** What a result says of genuine evidence, and every check; without what was asked. */
export type VerifiedEvidence = Pick<
  Result,
  "items" | "certificates" | "simulated" | "freshness" | "evidence_digest" | "ignored_items"
> & {
  readonly checks: readonly Check[];
};

/** What the evidence holds, read; nothing is judged yet. */
interface Read {
  readonly cpu: ParsedCpu | undefined;
  /** By the names of their items: the CPU first, then the others in the order of the evidence. */
  readonly devices: readonly (readonly [name: string, parsed: ParsedCpu | ParsedDevice])[];
  readonly log: Item | undefined;
  readonly presented: Presented;
}

const ACCOMPANYING: readonly string[] = [MEDIA.binding, MEDIA.endorsements, MEDIA.eventLog];

/**
 * Verify all evidence of one Attester. Throws an `AttestError` with every check that was made; where several refusals
 * apply, malformed comes before does-not-hold before endorsements.
 */
export async function verify(evidence: Evidence, given: Given, expected: Expected): Promise<VerifiedEvidence> {
  // (1) Read everything before anything is judged. What vendors say and came with it is a candidate like all others.
  const { cpu, devices, log, presented } = await readAll(evidence);
  const files = evidence
    .filter(({ essence }) => essence === MEDIA.endorsements)
    .map(({ name, value }) => ({ name, bytes: value }));
  const pool = { ...given, endorsements: merged(await readEndorsements(files, given.at), given.endorsements) };
  // (2) Judge what holds the items together, then each item; one refusal does not hide another.
  const { checks, failures, freshness } = await judgeComposite(presented, expected);
  const verified = new Map<string, Verified>();
  const refused: Check[] = [];
  // They do not wait for each other: most of the time goes to and fro between here and where signatures are computed.
  const judged = await Promise.all(
    devices.map(async ([name, parsed]) => [name, parsed, await refusalOf(() => parsed.verify(pool))] as const),
  );
  for (const [name, parsed, found] of judged) {
    if (found instanceof AttestError) {
      failures.push(found);
      refused.push(...ofItem(found.checks, name));
    } else verified.set(name, found);
    if (parsed !== cpu || !log || !cpu.registers) continue;
    const [made, failure] = await judgeLog(log, cpu.registers, given.unchecked, (eventlog) => {
      if (!(found instanceof AttestError)) verified.set(name, { ...found, claims: { ...found.claims, eventlog } });
    });
    checks.push(made);
    if (failure) failures.push(failure);
  }
  // (3) Judge the devices as a set, once each of them is what it says.
  if (devices.some(([, parsed]) => parsed !== cpu) && !failures.length) {
    const set = await judgeSet([...verified], given.unchecked);
    checks.push(...set.checks);
    failures.push(...set.failures);
  }
  // (4) Those of the whole first, then those of the items that are refused, then those of the genuine ones. The refusal that
  // comes first in the order of exit codes speaks for all and carries every check.
  checks.push(...refused, ...[...verified].flatMap(([name, device]) => ofItem(device.checks, name)));
  const [worst] = failures.sort((a, b) => a.exitCode - b.exitCode);
  if (worst) throw Object.assign(worst, { checks });
  return {
    items: [...verified].map(([name, { kind, claims }]) => ({ name, kind, claims })),
    certificates: (
      await Promise.all([...verified].map(([name, { chain }]) => shownChain(name, chain, given.anchors)))
    ).flat(),
    simulated: [...verified.values()].some(({ simulated }) => simulated),
    freshness,
    checks,
    evidence_digest: shown(await evidenceDigest(evidence)),
    ignored_items: presented.others.map(({ name }) => name).filter((name) => !verified.has(name)),
  };
}

async function readAll(evidence: Evidence): Promise<Read> {
  const cpus = evidence.filter(({ essence }) => CPU_FORMATS.has(essence));
  const others = evidence.filter(({ essence }) => DEVICE_FORMATS.has(essence));
  const got = evidence.map(({ essence }) => essence);
  need(
    cpus.length + others.length,
    "unsupported",
    "evidence-unsupported",
    [...CPU_FORMATS.keys(), ...DEVICE_FORMATS.keys()],
    got,
  );
  const item = onlyOne(cpus);
  const cpu = item && (await CPU_FORMATS.get(item.essence)?.(item.value));
  const devices: [string, ParsedDevice][] = [];
  for (const { name, essence, value } of others) {
    const parsed = await DEVICE_FORMATS.get(essence)?.(value);
    if (parsed) devices.push([name, parsed]);
  }
  const [log, bound] = [MEDIA.eventLog, MEDIA.binding].map((media) =>
    onlyOne(evidence.filter(({ essence }) => essence === media)),
  );
  need(!log || cpu?.registers, "unsupported", "eventlog-without-registers", "evidence with registers", cpu?.kind, {
    field: "eventlog",
  });
  return {
    cpu,
    devices: item && cpu ? [[item.name, cpu], ...devices] : devices,
    log,
    presented: {
      reportData: cpu?.reportData,
      nonce: cpu?.nonce,
      binding: bound && parseBinding(bound.value),
      others: evidence.filter((each) => each !== item && !ACCOMPANYING.includes(each.essence)),
      deviceNonces: devices.map(([name, { nonce }]) => [name, nonce]),
    },
  };
}

function onlyOne(items: readonly Item[]): Item | undefined {
  need(
    items.length < 2,
    "malformed",
    "evidence-ambiguous",
    "one",
    items.map(({ name }) => name),
    { field: items[0]?.essence },
  );
  return items[0];
}

/** Require that the log replays to the registers and that its data is what was measured; `tell` takes what it then states. */
async function judgeLog(
  { value }: Item,
  registers: Registers,
  unchecked: readonly Unchecked[],
  tell: (claims: Claims) => void,
): ReturnType<typeof taken> {
  const reasons = unchecked.filter(({ check }) => check === "eventlog").map(({ reason }) => reason);
  // One that cannot be read is malformed evidence, and no check of it.
  const replayed = await (await eventLogFormat()).readEventLog(value, registers);
  return taken("eventlog.replay", "intel-tdx-sgx.md 19, T13", async () => {
    const { events, unjudged, claims } = await replayed(reasons.length > 0);
    tell(claims);
    return unjudged.length
      ? [`unchecked: ${reasons}`, `${events} events, but not to ${unjudged}`, "not evaluated"]
      : ["the registers", `${events} events`];
  });
}
