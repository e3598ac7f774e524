/**
 * What a verified log states about the boot, as `claims.eventlog` has it; docs/event-logs.md explains each name.
 *
 * A type is not covered by any digest, so each fact is read only from the registers in which it is measured. The
 * variables of Secure Boot count only in front of the first separator of their register: until then nothing but the
 * measured firmware extends it. The separator is found by its digest, which nobody can relabel.
 *
 * A text is given only where it was hashed. Otherwise the digest is the fact, and says that it is unverified. A list is
 * absent, and not empty, when a register that it is read from was not proven: it might have had events.
 */

import { type Bytes, hex, unhex } from "../bytes";
import { digest } from "../crypto";
import {
  applicationEvent,
  BOOT_VARIABLES,
  EV_BOOT_APPLICATION,
  EV_SEPARATOR,
  EV_VARIABLE_AUTHORITY,
  EV_VARIABLE_DRIVER_CONFIG,
  grubText,
  stubText,
  tagOf,
  type UefiVariable,
  uefiVariable,
  type Verification,
} from "./content";
import type { LogKind } from "./kinds";
import type { VerifiedEventLog } from "./replay";
import { isExtended, type LogEvent } from "./structure";

type Values = Readonly<Record<string, string | number | boolean>>;
/** One event that a fact rests on, with what its hashed data says. */
type Fact = Values;
interface Pair {
  readonly event: LogEvent;
  readonly how: Verification;
}
type Read = (pair: Pair) => Values | null | Promise<Values | null>;

/** In which registers each kind of fact is measured; nowhere, when logs of this kind cannot prove it. */
interface Places {
  readonly secureBoot: string;
  readonly bootVariables: readonly string[];
  readonly applications: readonly string[];
  readonly grub: readonly string[];
  /** Kernel command lines that systemd's EFI stub and boot menu measured. */
  readonly stub: readonly string[];
  /** What Linux's EFI stub measured. */
  readonly kernelStub: readonly string[];
  /** Everything that boot loaders measure, these texts included. */
  readonly loader: readonly string[];
  /** What the guest's software measures, into the log. */
  readonly runtime: readonly string[];
}

const PLACES: Readonly<Record<LogKind["name"], Places>> = {
  CCEL: {
    secureBoot: "RTMR0",
    bootVariables: ["RTMR0", "RTMR1"],
    applications: ["RTMR0", "RTMR1"],
    grub: ["RTMR2"],
    stub: [], // This register is everybody's: its texts stay among the other events, by digest.
    kernelStub: ["RTMR2"],
    loader: ["RTMR2"],
    runtime: ["RTMR3"],
  },
  TCG2: {
    secureBoot: "PCR7",
    bootVariables: ["PCR1"],
    applications: ["PCR4"],
    grub: ["PCR8"],
    stub: ["PCR12"],
    kernelStub: ["PCR9"],
    loader: ["PCR8", "PCR9", "PCR11", "PCR12", "PCR13", "PCR14"],
    runtime: [], // Software that runs keeps logs of its own.
  },
};
const GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c";
const IMAGE_SECURITY = "d719b2cb-3d3a-4596-a3bc-dad00e67656f";
const STORES: Readonly<Record<string, string>> = { PK: GLOBAL, KEK: GLOBAL, db: IMAGE_SECURITY, dbx: IMAGE_SECURITY };
const STUB_INITRD = 0x8f3b22ec;
const STUB_LOAD_OPTIONS = 0x8f3b22ed;
/** What a separator may hold; the last one means that the firmware failed. */
const SEPARATORS = ["00000000", "ffffffff", "01000000"];
const SECURE_BOOT: Readonly<Record<string, boolean>> = { "": false, "00": false, "01": true };

/** Read the facts of a verified log. */
export async function factsDocument(verified: VerifiedEventLog): Promise<Readonly<Record<string, unknown>>> {
  const { kind, events } = verified.log;
  const places = PLACES[kind.name];
  const pairs = events
    .map((event, i): Pair => ({ event, how: verified.verifications[i] ?? "unverified" }))
    .filter(({ event }) => isExtended(event) && verified.proven.has(event.register.name));
  /** Make a fact of each event of these registers that is of the kind; nothing unless each of them was proven. */
  const all = async (registers: readonly string[], read: Read): Promise<readonly Fact[] | undefined> => {
    if (!registers.length || !registers.every((name) => verified.proven.has(name))) return undefined;
    const found: Fact[] = [];
    for (const pair of pairs) {
      const values = registers.includes(pair.event.register.name) ? await read(pair) : null;
      if (values) found.push(factOf(pair, values));
    }
    return found;
  };
  const texts = {
    kernel_command_lines: await all([...places.grub, ...places.stub], commandLineOf(places)),
    grub_commands: await all(places.grub, grubOf(false)),
    load_options: await all(places.kernelStub, tagged(STUB_LOAD_OPTIONS)),
    initrds: await all(places.kernelStub, tagged(STUB_INITRD)),
  };
  const named = new Set(Object.values(texts).flatMap((facts) => (facts ?? []).map((fact) => fact.event)));
  const document = {
    event_count: events.length,
    ...(await firmwareFacts(pairs, kind, verified.proven.has(places.secureBoot))),
    authorities: await all([places.secureBoot], authorityOf(kind)),
    boot_variables: await all(places.bootVariables, bootVariableOf),
    boot_applications: await all(places.applications, ({ event }) => (event.type === EV_BOOT_APPLICATION ? {} : null)),
    ...texts,
    // What the other lists leave out, so that together they hold the whole of these registers.
    other_loader_events: await all(places.loader, ({ event }) => (named.has(event.number) ? null : {})),
    application_events: await all(places.runtime, ({ event }) => applicationEvent(event)),
    other_runtime_events: await all(places.runtime, ({ event }) => (applicationEvent(event) ? null : {})),
  };
  return Object.fromEntries(Object.entries(document).filter(([, value]) => value !== undefined));
}

function factOf({ event, how }: Pair, values: Values): Fact {
  const { number, register, digest: replayed } = event;
  return { event: number, register: register.name, digest: hex(replayed), verification: how, ...values };
}

// -- the firmware's variables

interface Measured extends Pair {
  readonly variable: UefiVariable;
}

/** The variables that the firmware measured before anything else could extend its register. */
async function firmwareVariables(pairs: readonly Pair[], kind: LogKind): Promise<readonly Measured[]> {
  const separators = new Set<string>();
  for (const data of SEPARATORS) separators.add(hex(await digest(kind.hash, unhex(data))));
  const found: Measured[] = [];
  for (const pair of pairs) {
    const { type, register, data } = pair.event;
    if (register.name !== PLACES[kind.name].secureBoot) continue;
    if (type === EV_SEPARATOR || separators.has(hex(pair.event.digest))) break;
    const variable = type === EV_VARIABLE_DRIVER_CONFIG ? uefiVariable(data) : null;
    if (variable) found.push({ ...pair, variable });
  }
  return found;
}

/** State and key stores of Secure Boot. */
async function firmwareFacts(pairs: readonly Pair[], kind: LogKind, isProven: boolean): Promise<Record<string, unknown>> {
  const facts: Record<string, unknown> = {};
  const measured = await firmwareVariables(pairs, kind);
  // Two answers are no answer, and an empty variable is one that the firmware does not have.
  const states = measured.filter(({ variable }) => variable.guid === GLOBAL && variable.name === "SecureBoot");
  if (states.length === 1 && states[0]) {
    const enabled = SECURE_BOOT[hex(states[0].variable.value)];
    facts["secure_boot"] = factOf(states[0], enabled === undefined ? {} : { enabled });
  }
  if (!isProven) return facts;
  for (const [name, guid] of Object.entries(STORES)) {
    const stores: Fact[] = [];
    for (const found of measured) {
      const { variable } = found;
      if (variable.guid === guid && variable.name === name) stores.push(factOf(found, await told(variable.value, kind)));
    }
    facts[name.toLowerCase()] = stores;
  }
  return facts;
}

/** Give size and digest, by the hash of the log's bank: the values themselves are kilobytes of certificates. */
async function told(value: Bytes, { hash, size }: LogKind): Promise<Values> {
  return { size: value.length, [`value_sha${8 * size}`]: hex(await digest(hash, value)) };
}

// -- events of one kind: what the hashed data says, or null for an event of another kind

const authorityOf =
  (kind: LogKind): Read =>
  async ({ event }) => {
    if (event.type !== EV_VARIABLE_AUTHORITY) return null;
    const variable = uefiVariable(event.data);
    return variable ? { guid: variable.guid, name: variable.name, ...(await told(variable.value, kind)) } : {};
  };

/** Leave the name out: older profiles do not hash it. */
const bootVariableOf: Read = ({ event }) => {
  const variable = BOOT_VARIABLES.includes(event.type) ? uefiVariable(event.data) : null;
  return variable && { value: hex(variable.value) };
};

/** Texts of GRUB; for a command line the prefix that makes it one is not hashed. */
const grubOf =
  (wanted: boolean): Read =>
  ({ event, how }) => {
    const found = how === "unverified" ? null : grubText(event);
    return found?.isCommandLine === wanted ? { text: found.text } : null;
  };

function commandLineOf({ stub }: Places): Read {
  const grub = grubOf(true);
  return (pair) => {
    if (!stub.includes(pair.event.register.name)) return grub(pair);
    const text = pair.how === "verified" ? stubText(pair.event) : null;
    return text === null ? null : { text };
  };
}

const tagged =
  (tag: number): Read =>
  ({ event }) =>
    tagOf(event) === tag ? {} : null;
