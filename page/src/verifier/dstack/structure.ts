/**
 * dstack's event log: a JSON array of the events that extended RTMR0 to RTMR3, as `attest.evidence.dstack.structure`.
 *
 * Registers are numbered from 0 (`imr`); a CCEL counts MRTD as its register 0. So an event becomes one of a CCEL, and
 * replay, data and facts are those of such a log.
 *
 * Spec: dstack.md 2.
 */

import { type Bytes, concat, utf8 } from "../bytes";
import { sha384 } from "../crypto";
import { hexBytes } from "../encoding";
import { AttestError, fail, refusalOf } from "../errors";
import { EV_RUNTIME } from "../eventlog/content";
import { CCEL } from "../eventlog/kinds";
import { type EventLog, type LogEvent, MAX_EVENTS, MAX_LOG_BYTES } from "../eventlog/structure";
import { type JsonValue, isInteger, isObject, jsonValue } from "../json";

export const RUNTIME_REGISTER = "RTMR3";
const RUNTIME_IMR = 3;
const DIGEST_BYTES = 48;
/** An upper limit of the commas and brackets in a log, but for those in names. */
const MAX_MARKS = MAX_EVENTS * 8;
const U32 = 2 ** 32 - 1;

/** One event as the log has it; `data` of an event of dstack is what its digest has to cover. */
export interface DstackEvent extends LogEvent {
  readonly name: string;
  readonly payload: Bytes;
  readonly version: number;
  /** False where the log leaves the digest out. */
  readonly hasDigest: boolean;
  /** An event of dstack, by its type and register; no digest covers either but for such an event. */
  readonly isRuntime: boolean;
}

export interface DstackLog extends EventLog {
  readonly events: readonly DstackEvent[];
  readonly form: "dstack" | "dstack-stripped";
}

/** Refuse a value of a log. */
export const malformedLog = (field: string, expected: string, got = "another value"): never =>
  fail("malformed", "dstack-log-malformed", "", { check: "dstack.log", field, expected, got });

/** Read JSON text within bounds. */
async function json(text: Bytes, path: string): Promise<JsonValue> {
  if (text.length > MAX_LOG_BYTES) malformedLog(path, `${MAX_LOG_BYTES} bytes`, `${text.length}`);
  const marks = text.reduce((count, byte) => count + (byte === 0x2c || byte === 0x5b || byte === 0x7b ? 1 : 0), 0);
  if (marks > MAX_MARKS) malformedLog(path, `${MAX_MARKS} values`, `${marks}`);
  const value = await refusalOf(() => jsonValue(text, path));
  return value instanceof AttestError ? malformedLog(path, "one strict JSON document") : value;
}

/** Read an event log in JSON, an array or a text that holds one: `dstack-log-malformed`. */
export async function parseDstackLog(data: Bytes): Promise<DstackLog> {
  return dstackLog(await json(data, "events"), "events");
}

/** Read an event log that is a member of a document. */
export async function dstackLog(value: JsonValue | undefined, path: string): Promise<DstackLog> {
  const entries = typeof value === "string" ? await json(utf8(value), path) : value;
  if (!Array.isArray(entries) || entries.length > MAX_EVENTS) return malformedLog(path, `at most ${MAX_EVENTS} events`);
  const events: DstackEvent[] = [];
  for (const [i, entry] of entries.entries()) events.push(await eventOf(entry, `${path}[${i}]`, i + 1));
  const form = events.every(({ hasDigest }) => hasDigest) ? "dstack" : "dstack-stripped";
  return { kind: CCEL, events, startupLocality: 0, form };
}

function numberOf(value: JsonValue | undefined, path: string, least: number, most: number): number {
  return isInteger(value) && value >= least && value <= most ? value : malformedLog(path, `${least} to ${most}`);
}

const textOf = (value: JsonValue | undefined, path: string): string =>
  typeof value === "string" ? value : malformedLog(path, "text");

async function hexOf(value: JsonValue | undefined, path: string): Promise<Bytes> {
  const text = textOf(value, path);
  const found = await refusalOf(() => hexBytes(text, path));
  return found instanceof AttestError ? malformedLog(path, "pairs of hex digits") : found;
}

/** Read an event. Members that are not known are left out: a digest that rests on one does not fit. */
async function eventOf(entry: JsonValue, path: string, number: number): Promise<DstackEvent> {
  const members = isObject(entry) ? entry : malformedLog(path, "an object");
  const imr = numberOf(members.imr, `${path}.imr`, 0, RUNTIME_IMR);
  const type = numberOf(members.event_type, `${path}.event_type`, 0, U32);
  const name = textOf(members.event, `${path}.event`);
  const payload = await hexOf(members.event_payload, `${path}.event_payload`);
  const version = "version" in members ? numberOf(members.version, `${path}.version`, 1, 2) : 1;
  const isRuntime = type === EV_RUNTIME && imr === RUNTIME_IMR;
  const data = isRuntime ? covered(name, payload, version, members.event_payload as string) : payload;
  const stated = await hexOf(members.digest, `${path}.digest`);
  const hasDigest = stated.length > 0;
  if (stated.length !== DIGEST_BYTES && (hasDigest || !isRuntime)) malformedLog(`${path}.digest`, "48 bytes of hex");
  const digest = hasDigest ? stated : await sha384(data);
  const register = CCEL.registers[imr + 1]!; // of the four behind MRTD
  return { number, register, type, digest, data, withheld: !data.length, name, payload, version, hasDigest, isRuntime };
}

/** The content of the digest of an event: type, name and payload; of version 2 canonical JSON of the three. */
function covered(name: string, payload: Bytes, version: number, digits: string): Bytes {
  if (version === 2) {
    return utf8(`{"name":${JSON.stringify(name)},"payload":"${digits.toLowerCase()}","type":${EV_RUNTIME}}`);
  }
  const type = Uint8Array.of(1, 0, 0, 8); // EV_RUNTIME, little-endian
  return concat(type, utf8(":"), utf8(name), utf8(":"), payload);
}
