/**
 * Facts of a dstack log that replays, as `attest.evidence.dstack.facts`.
 *
 * Only the events in front of `system-ready` are dstack's own. No digest covers the type of an event, and that of
 * version 1 does not say where its name ends. So the reading stops at the first event that is no event of dstack for
 * certain: `system-ready` itself can be relabelled on the way.
 *
 * Spec: dstack.md 3.
 */

import { type Bytes, hex, utf8, utf8Text } from "../bytes";
import { type ClaimTree, type Claims, nestedClaims } from "../claims";
import { hexBytes } from "../encoding";
import { AttestError, refusalOf, refuse } from "../errors";
import { type JsonValue, isObject, jsonValue } from "../json";
import { type DstackEvent, type DstackLog, RUNTIME_REGISTER } from "./structure";

const READY = "system-ready";
const COMPOSE_HASH = "compose-hash";
const BOOT_DONE = "boot-mr-done";
const INIT_SCRIPT = "init-script-hash";
/** Payload sizes of the events that have a fixed one; an instance without an id has an empty one. */
const PAYLOAD_BYTES: ReadonlyMap<string, readonly number[]> = new Map([
  ["system-preparing", [0]],
  ["app-id", [20]],
  [COMPOSE_HASH, [32]],
  ["instance-id", [20, 0]],
  [BOOT_DONE, [0]],
  ["mr-kms", [32]],
  ["os-image-hash", [32]],
  [READY, [0]],
]);

/** The party that gave the guest its keys. */
export interface KeyProvider {
  readonly name: string;
  readonly id: Bytes;
}

/** Facts that the events of dstack state; absent where the log has no such event. */
export interface DstackFacts {
  readonly digests: ReadonlyMap<string, Bytes>;
  readonly keyProvider?: KeyProvider | undefined;
  readonly gpuAttestation?: string | undefined;
  readonly initScripts: readonly Bytes[];
  readonly sources: readonly (readonly [fact: string, event: DstackEvent])[];
}

export const NO_FACTS: DstackFacts = { digests: new Map(), initScripts: [], sources: [] };

/** Facts that are bytes, by the names of their events. */
const DIGESTS: readonly (readonly [event: string, fact: string])[] = [
  ["app-id", "app_id"],
  [COMPOSE_HASH, "compose_hash"],
  ["instance-id", "instance_id"],
  ["os-image-hash", "os_image_hash"],
  ["mr-kms", "mr_kms"],
  ["gpu-policy-hash", "gpu_policy_hash"],
];
const NAMES = [...DIGESTS, ["key-provider", "key_provider"], ["gpu-attestation", "gpu_attestation"]] as const;

/** The events in front of `system-ready` by name, and the init scripts, of which there may be several. */
interface Named {
  readonly events: ReadonlyMap<string, DstackEvent>;
  readonly initScripts: readonly Bytes[];
}

/** Read the facts: `dstack-event-invalid` of an event that is duplicated, misplaced, or of another size. */
export async function readFacts(log: DstackLog): Promise<DstackFacts> {
  const { events, initScripts } = namedEvents(log);
  const provider = events.get("key-provider");
  const gpu = events.get("gpu-attestation");
  const found = NAMES.flatMap(([name, fact]) => {
    const event = events.get(name);
    return event?.payload.length ? [[fact, event] as const] : [];
  });
  return {
    digests: new Map(found.flatMap(([fact, { payload }]) => (isDigest(fact) ? [[fact, payload] as const] : []))),
    keyProvider: provider && ((await keyProviderOf(textOf(provider))) ?? invalid(provider, "name and id", "others")),
    gpuAttestation: gpu && textOf(gpu),
    // An incomplete list is not used: a relabelled event can end the reading early.
    initScripts: events.has(READY) ? initScripts : [],
    sources: found,
  };
}

function namedEvents(log: DstackLog): Named {
  const events = new Map<string, DstackEvent>();
  const initScripts: Bytes[] = [];
  for (const event of eventsOfDstack(log)) {
    const { name, payload } = event;
    const sizes = PAYLOAD_BYTES.get(name);
    if (sizes?.includes(payload.length) === false) invalid(event, `${sizes.join(" or ")} bytes`, `${payload.length}`);
    if (name === INIT_SCRIPT) initScripts.push(payload);
    else if (events.has(name)) invalid(event, "each event once", "the same name twice");
    else if (name === COMPOSE_HASH && events.has(BOOT_DONE)) invalid(event, "in front of boot-mr-done", "behind it");
    else events.set(name, event);
  }
  return { events, initScripts };
}

const isDigest = (fact: string): boolean => DIGESTS.some(([, name]) => name === fact);

/** The events up to the first one that may be another's. */
function eventsOfDstack({ events }: DstackLog): readonly DstackEvent[] {
  const own = events.filter(({ register }) => register.name === RUNTIME_REGISTER);
  const foreign = own.findIndex(({ isRuntime, version, name }) => !isRuntime || (version === 1 && name.includes(":")));
  const certain = own.slice(0, foreign < 0 ? undefined : foreign);
  const ready = certain.findIndex(({ name }) => name === READY);
  return certain.slice(0, ready < 0 ? undefined : ready + 1);
}

const textOf = (event: DstackEvent): string => utf8Text(event.payload) ?? invalid(event, "text", "other bytes");

/** Read a key provider as dstack writes it, in JSON; undefined for other text. */
export async function keyProviderOf(text: string): Promise<KeyProvider | undefined> {
  const found = await refusalOf(() => providerIn(jsonValue(utf8(text), "key-provider")));
  return found instanceof AttestError ? undefined : found;
}

/** Read it from a value. */
export function providerIn(value: JsonValue): KeyProvider | undefined {
  if (!isObject(value) || typeof value.name !== "string" || typeof value.id !== "string") return undefined;
  return { name: value.name, id: hexBytes(value.id, "key-provider") };
}

/** Write a key provider as one text. */
export const providerText = ({ name, id }: KeyProvider): string => `${name}:${hex(id)}`;

function invalid({ number }: DstackEvent, expected: string, got: string): never {
  return refuse("verification", "dstack-event-invalid", expected, got, { field: `events[${number - 1}]` });
}

/** The facts as `claims.eventlog.dstack` has them; what the log does not state is absent. */
export function dstackDocument({ digests, keyProvider, gpuAttestation, initScripts, sources }: DstackFacts): Claims {
  const events = sources.map(([fact, { number, register, digest }]): [string, ClaimTree] => [
    fact,
    { event: number, register: register.name, digest },
  ]);
  return nestedClaims({
    ...Object.fromEntries(digests),
    key_provider: keyProvider && { ...keyProvider },
    gpu_attestation: gpuAttestation,
    init_script_hashes: initScripts.length ? initScripts : undefined,
    sources: Object.fromEntries(events),
  });
}
