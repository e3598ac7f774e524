/**
 * Facts of a verified log about the boot, as `claims.eventlog` has it; docs/event-logs.md explains each name.
 *
 * A type is not covered by any digest, so each fact is read only from the registers in which it is measured. The
 * variables of Secure Boot count only in front of the first separator of their register: until then nothing but the
 * measured firmware extends it. The separator is found by its digest, which cannot be relabelled.
 *
 * A text is given only where it was hashed. Otherwise the digest is the fact, and says that it is unverified. A list is
 * absent, and not empty, when a register that it is read from was not proven: it might have had events.
 */

import { type Bytes, hex, unhex } from "../bytes";
import { type ClaimTree, type Claims, nestedClaims } from "../claims";
import { digest } from "../crypto";
import {
  BOOT_VARIABLES,
  EV_BOOT_APPLICATION,
  EV_SEPARATOR,
  EV_VARIABLE_AUTHORITY,
  EV_VARIABLE_DRIVER_CONFIG,
  type UefiVariable,
  applicationEvent,
  grubText,
  stubText,
  tagOf,
  uefiVariable,
} from "./content";
import type { LogKind } from "./kinds";
import type { Proven, VerifiedEventLog } from "./replay";

/** Statement of an event's hashed data; undefined for an event of another kind. */
type Read = (event: Proven) => ClaimTree | undefined | Promise<ClaimTree | undefined>;

const GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c";
const IMAGE_SECURITY = "d719b2cb-3d3a-4596-a3bc-dad00e67656f";
const STORES = { PK: GLOBAL, KEK: GLOBAL, db: IMAGE_SECURITY, dbx: IMAGE_SECURITY };
const STUB_INITRD = 0x8f3b22ec;
const STUB_LOAD_OPTIONS = 0x8f3b22ed;
/** Permitted values of a separator; the last one means that the firmware failed. */
const SEPARATORS = ["00000000", "ffffffff", "01000000"];
const SECURE_BOOT: Readonly<Record<string, boolean>> = { "": false, "00": false, "01": true };

/** Read the facts of a verified log. */
export async function factsDocument({ kind, count, proven, events }: VerifiedEventLog): Promise<Claims> {
  const { secureBoot, bootVariables, applications, grub, stub, kernelStub, loader, runtime } = kind.places;
  /** Make a fact of each event of these registers that is of the kind; nothing unless each of them was proven. */
  const all = async (registers: readonly string[], read: Read): Promise<readonly ClaimTree[] | undefined> => {
    if (!registers.length || !registers.every((name) => proven.has(name))) return undefined;
    const found = events
      .filter(({ register }) => registers.includes(register.name))
      .map(async (event) => factOf(event, await read(event)));
    return (await Promise.all(found)).flatMap((fact) => (fact ? [fact] : []));
  };
  /** Size and digest, by the hash of the log's bank: the values themselves are kilobytes of certificates. */
  const told = async (value: Bytes): Promise<ClaimTree> => ({
    size: value.length,
    [`value_${kind.hash.replace("-", "").toLowerCase()}`]: await digest(kind.hash, value),
  });
  const texts = {
    kernel_command_lines: await all([...grub, ...stub], (event) => {
      if (!stub.includes(event.register.name)) return grubbed(event, true);
      return textOf(event.how === "verified" ? stubText(event) : undefined);
    }),
    grub_commands: await all(grub, (event) => grubbed(event, false)),
    load_options: await all(kernelStub, (event) => (tagOf(event) === STUB_LOAD_OPTIONS ? {} : undefined)),
    initrds: await all(kernelStub, (event) => (tagOf(event) === STUB_INITRD ? {} : undefined)),
  };
  const named = new Set(Object.values(texts).flatMap((facts) => (facts ?? []).map(({ event }) => event)));
  const measured = await firmwareVariables(kind, events);
  const variables = (guid: string, name: string) =>
    measured.filter(({ variable }) => variable.guid === guid && variable.name === name);
  // Two answers are no answer, and an empty variable is one that the firmware does not have.
  const [state, ...others] = variables(GLOBAL, "SecureBoot");
  const stores = Object.entries(STORES).map(async ([name, guid]) => {
    const found = variables(guid, name).map(async ({ event, variable }) => factOf(event, await told(variable.value)));
    return [name.toLowerCase(), proven.has(secureBoot) ? await Promise.all(found) : undefined] as const;
  });
  return nestedClaims({
    event_count: count,
    secure_boot:
      state && !others.length ? factOf(state.event, { enabled: SECURE_BOOT[hex(state.variable.value)] }) : undefined,
    ...Object.fromEntries(await Promise.all(stores)),
    authorities: await all([secureBoot], async ({ type, data }) => {
      if (type !== EV_VARIABLE_AUTHORITY) return undefined;
      const variable = uefiVariable(data);
      return variable ? { guid: variable.guid, name: variable.name, ...(await told(variable.value)) } : {};
    }),
    boot_variables: await all(bootVariables, bootVariable),
    other_firmware_events: await all(bootVariables, (event) => (bootVariable(event) ? undefined : {})),
    boot_applications: await all(applications, ({ type }) => (type === EV_BOOT_APPLICATION ? {} : undefined)),
    ...texts,
    // All events that the other lists omit, so that together they cover these registers completely.
    other_loader_events: await all(loader, ({ number }) => (named.has(number) ? undefined : {})),
    application_events: await all(runtime, applicationEvent),
    other_runtime_events: await all(runtime, (event) => (applicationEvent(event) ? undefined : {})),
  });
}

/** The variables that the firmware measured before anything else could extend its register. */
async function firmwareVariables(
  { hash, places }: LogKind,
  events: readonly Proven[],
): Promise<readonly { event: Proven; variable: UefiVariable }[]> {
  const separators = await Promise.all(SEPARATORS.map(async (data) => hex(await digest(hash, unhex(data)))));
  const firmware = events.filter(({ register }) => register.name === places.secureBoot);
  const ends = firmware.findIndex((event) => event.type === EV_SEPARATOR || separators.includes(hex(event.digest)));
  return firmware.slice(0, ends < 0 ? undefined : ends).flatMap((event) => {
    const variable = event.type === EV_VARIABLE_DRIVER_CONFIG ? uefiVariable(event.data) : undefined;
    return variable ? [{ event, variable }] : [];
  });
}

/** The value of a boot variable, without its name: older profiles do not hash it. */
function bootVariable({ type, data }: Proven): ClaimTree | undefined {
  const variable = BOOT_VARIABLES.includes(type) ? uefiVariable(data) : undefined;
  return variable && { value: variable.value };
}

function factOf(
  { number, register, digest: replayed, how }: Proven,
  values: ClaimTree | undefined,
): ClaimTree | undefined {
  return values && { event: number, register: register.name, digest: replayed, verification: how, ...values };
}

const textOf = (text: string | undefined): ClaimTree | undefined => (text === undefined ? text : { text });

/** A text of GRUB; of a command line the prefix that makes it one is not hashed. */
const grubbed = (event: Proven, isCommandLine: boolean): ClaimTree | undefined =>
  textOf(event.how === "unverified" ? undefined : grubText(event, isCommandLine));
