/** Is this evidence genuine? One call over all evidence of one Attester: `attest.verification`, in the same order. */

import { type Binding, parseBinding } from "./binding";
import { hex } from "./bytes";
import { type Check, type Unchecked, check, ofItem } from "./checks";
import { type Composite, type Expected, judgeComposite } from "./composite";
import { MEDIA, type Evidence, type Item, evidenceDigest } from "./envelope";
import { readEndorsements } from "./recognition";
import { AttestError, fail, refusalOf } from "./errors";
import { CPU_FORMATS, DEVICE_FORMATS, type Given, KINDS, type ParsedCpu, type ParsedDevice, type Verified, judgeSet, replayLog } from "./formats";
import { type Claims } from "./claims";
import { merged } from "./pool";

const ACCOMPANYING: readonly string[] = [MEDIA.binding, MEDIA.endorsements, MEDIA.eventLog];

export interface VerifiedItem {
  readonly name: string;
  readonly kind: string;
  readonly claims: Claims;
}

export interface VerifiedEvidence {
  readonly items: readonly VerifiedItem[];
  readonly simulated: boolean;
  readonly freshness: Composite["freshness"];
  readonly checks: readonly Check[];
  /** Hex of the digest over all items. */
  readonly digest: string;
  /** Names of items of unknown kinds; nothing was concluded from them, though a binding still lists them. */
  readonly ignored: readonly string[];
}

/** What the evidence holds, read; nothing is judged yet. */
interface Read {
  readonly cpu: { readonly item: Item; readonly parsed: ParsedCpu } | undefined;
  readonly devices: readonly { readonly item: Item; readonly parsed: ParsedDevice }[];
  readonly log: Item | undefined;
  readonly binding: Binding | undefined;
}

/**
 * Verify all evidence of one Attester. Throws an `AttestError` with every check that was made; where several refusals
 * apply, malformed comes before does-not-hold before endorsements.
 */
export async function verify(evidence: Evidence, given: Given, expected: Expected): Promise<VerifiedEvidence> {
  // (1) Read everything before anything is judged.
  const read = await readAll(evidence);
  const pool = { ...given, endorsements: await withPresented(evidence, given) };
  // (2) Judge what holds the items together, then each item; one refusal does not hide another.
  const composite = await judgeComposite(presented(evidence, read), expected);
  const found = new Findings([...composite.checks], [...composite.failures]);
  if (read.cpu) {
    const { item, parsed } = read.cpu;
    const verified = await found.attempt(item.name, () => parsed.verify(pool));
    const eventlog = read.log && (await found.judgeLog(read.log, parsed, given.unchecked));
    if (verified && eventlog) found.verified.set(item.name, { ...verified, claims: { ...verified.claims, eventlog } });
  }
  for (const { item, parsed } of read.devices) await found.attempt(item.name, () => parsed.verify(pool));
  // (3) Judge the devices as a set, once each of them is what it says.
  if (read.devices.length && !found.failures.length) await found.addSet(read.devices, given.unchecked);
  // (4) The refusal that comes first in the order of exit codes speaks for all and carries every check.
  if (found.failures.length) throw found.refusal();
  const known = new Set(found.verified.keys());
  return {
    items: [...found.verified].map(([name, { kind, claims }]) => ({ name, kind, claims })),
    simulated: [...found.verified.values()].some(({ simulated }) => simulated),
    freshness: composite.freshness,
    checks: found.allChecks(),
    digest: hex(await evidenceDigest(evidence)),
    ignored: evidence.filter(({ name, essence }) => !known.has(name) && !ACCOMPANYING.includes(essence)).map(({ name }) => name),
  };
}

// -- (1) reading

async function readAll(evidence: Evidence): Promise<Read> {
  const cpus = evidence.filter(({ essence }) => Object.hasOwn(CPU_FORMATS, essence));
  const others = evidence.filter(({ essence }) => Object.hasOwn(DEVICE_FORMATS, essence));
  if (!cpus.length && !others.length) {
    const got = evidence.map(({ name, essence }) => `${name}: ${essence}`).join(", ");
    fail("unsupported", "evidence-unsupported", "", { expected: `one of ${KINDS}`, got });
  }
  if (cpus.length > 1) ambiguous("several items are CPU evidence", cpus.map(({ name }) => name).join(", "));
  const [item] = cpus;
  const cpu = item && { item, parsed: await (CPU_FORMATS[item.essence] ?? fail("unsupported", "evidence-unsupported", "no such format"))(item.value) };
  const devices = [];
  for (const each of others) {
    const parse = DEVICE_FORMATS[each.essence];
    if (parse) devices.push({ item: each, parsed: await parse(each.value) });
  }
  const log = onlyOne(evidence, MEDIA.eventLog, "eventlog");
  if (log && !cpu?.parsed.registers) {
    fail("unsupported", "eventlog-without-registers", "", {
      field: "eventlog",
      expected: "evidence with registers that a boot is measured into",
      got: cpu ? cpu.parsed.kind : "evidence without a CPU report",
    });
  }
  const bound = onlyOne(evidence, MEDIA.binding, "binding");
  return { cpu, devices, log, binding: bound && parseBinding(bound.value) };
}

function ambiguous(problem: string, got: string, field?: string): never {
  return fail("malformed", "evidence-ambiguous", problem, { field, expected: "one", got });
}

function onlyOne(evidence: Evidence, essence: string, field: string): Item | undefined {
  const found = evidence.filter((item) => item.essence === essence);
  if (found.length > 1) ambiguous(`the evidence has two items of the kind ${field}`, `${found.length}`, field);
  return found[0];
}

/** Add the endorsements that came with the evidence; like all others they are only candidates. */
async function withPresented(evidence: Evidence, given: Given): Promise<Given["endorsements"]> {
  const files = evidence.filter(({ essence }) => essence === MEDIA.endorsements).map(({ name, value }) => ({ name, bytes: value }));
  if (!files.length) return given.endorsements;
  return merged(await readEndorsements(files, given.at), given.endorsements);
}

function presented(evidence: Evidence, { cpu, devices, binding }: Read): Parameters<typeof judgeComposite>[0] {
  return {
    reportData: cpu?.parsed.reportData,
    nonce: cpu?.parsed.nonce,
    binding,
    others: evidence.filter((item) => item !== cpu?.item && !ACCOMPANYING.includes(item.essence)),
    deviceNonces: devices.map(({ item, parsed }) => [item.name, parsed.nonce] as const),
  };
}

// -- (2) and (3) judging

class Findings {
  /** The devices that are genuine, in the order of the evidence: the CPU first. */
  readonly verified = new Map<string, Verified>();
  private readonly refused: Check[] = [];

  constructor(
    private readonly checks: Check[],
    readonly failures: AttestError[],
  ) {}

  async attempt(name: string, verifyItem: () => Promise<Verified>): Promise<Verified | undefined> {
    const verified = await refusalOf(verifyItem);
    if (verified instanceof AttestError) {
      this.failures.push(verified);
      this.refused.push(...ofItem(verified.checks, name));
      return undefined;
    }
    this.verified.set(name, verified);
    return verified;
  }

  /** Require that the log replays to the registers and that its data is what was measured; add the check. */
  async judgeLog(log: Item, { registers }: ParsedCpu, unchecked: readonly Unchecked[]): Promise<Claims | undefined> {
    if (!registers) return undefined;
    const reasons = unchecked.filter((each) => each.check === "eventlog").map(({ reason }) => reason);
    const clause = "intel-tdx-sgx.md 19, T13";
    let expected = "the registers of the evidence, and data that was measured";
    try {
      const { events, unjudged, claims } = await replayLog(log.value, registers, reasons.length > 0);
      let got = `${events} events replay`;
      if (unjudged.length) {
        expected = `unchecked: ${reasons.join("; ")}`;
        got += `, but not to ${unjudged.join(", ")}`;
      }
      this.checks.push(check("eventlog.replay", unjudged.length ? "not evaluated" : "pass", expected, got, clause));
      return claims;
    } catch (error) {
      if (!(error instanceof AttestError) || !error.isVerification) throw error;
      error.facts.check = "eventlog.replay";
      this.failures.push(error);
      const { facts } = error;
      this.checks.push(check("eventlog.replay", "fail", facts.expected ?? expected, facts.got ?? error.message, clause));
      return undefined;
    }
  }

  async addSet(devices: Read["devices"], unchecked: readonly Unchecked[]): Promise<void> {
    const set = devices.flatMap(({ item }) => {
      const verified = this.verified.get(item.name);
      return verified ? [[item.name, verified] as const] : [];
    });
    const { checks, failures } = await judgeSet(set, unchecked);
    this.checks.push(...checks);
    this.failures.push(...failures);
  }

  /** Those of the whole first, then those of the items that are refused, then those of the genuine ones. */
  allChecks(): readonly Check[] {
    const genuine = [...this.verified].flatMap(([name, { checks }]) => ofItem(checks, name));
    return [...this.checks, ...this.refused, ...genuine];
  }

  refusal(): AttestError {
    const worst = this.failures.reduce((first, next) => (next.exitCode < first.exitCode ? next : first));
    worst.checks = this.allChecks();
    return worst;
  }
}
