/**
 * Demands of a policy on an event log that replays to registers: `event_log` of `tdx` and `azure`.
 *
 * No digest covers the type of an event: a party that forwards a log can put a digest under another kind. So the lists
 * of the boot loader's registers apply together, and so do those of the firmware's and of the runtime's: if one is
 * stated, the omitted ones accept nothing.
 */

import { told, claimOf } from "./claims";
import type { ClaimJson } from "../verifier/api";
import { isObject } from "../verifier/json";
import { type Reader, hexOf, listOf, maybe, record, text, word } from "./decode";
import { type Claim, type Row, type Test, ask, excused, filled, flag, is, mustBe, section, spare } from "./rules";

interface Application {
  readonly domain: string;
  readonly operation: string;
  readonly contents: readonly string[] | undefined;
}

const application = record<Application>({ domain: word, operation: word, contents: maybe(listOf(text)) });
const meets = (event: string, { domain, operation, contents }: Application): boolean => {
  const head = `${domain} ${operation} `;
  return event.startsWith(head) && (!contents || contents.includes(event.slice(head.length)));
};

const accepted = (known: readonly unknown[]): string =>
  known.length ? `at least one, and only ${told(known, " or ")}` : "no such event";
const there: Test<boolean> = ["a log that replays", () => true];
/** Every event is an accepted one, and there is one; with nothing accepted, there is none. */
const all: Test<readonly string[]> = [
  "",
  (events: readonly string[], known) =>
    !events.length === !known.length && events.every((event) => known.includes(event)),
  accepted,
];
const applications: Test<readonly Application[]> = [
  "",
  (events: readonly string[], known) =>
    events.every((event) => known.some((one) => meets(event, one))) &&
    known.every((one) => events.some((event) => meets(event, one))),
  accepted,
];

/** Of each fact of a list these values, with a space between; absent where the log cannot prove the list. */
const facts =
  (list: string, values: string): Claim =>
  (claims) =>
    (claimOf(claims, `eventlog.${list}`) as readonly ClaimJson[] | undefined)?.map((fact) =>
      values
        .split(" ")
        .map((name) => textOf(claimOf(fact, name)))
        .join(" "),
    );

/** A member of a fact, which is empty where it is absent. */
const textOf = (value: ClaimJson | undefined): string => (value === undefined || value === null ? "" : told(value));

/** Events of the firmware: its boot variables, ACPI tables and all else in the same registers. */
const FIRMWARE = ["boot_variables", "other_firmware_events"];
export const LOADER = ["kernel_command_lines", "grub_commands", "load_options", "initrds", "other_loader_events"];
/** Events of the guest's software; the log of a TPM ends before them. */
export const RUNTIME = ["application_events", "other_runtime_events"];

/** @param size of a digest of the log's bank */
export function ofLog(size: number, runtime: readonly string[] = []): Row {
  const digests = hexOf(size);
  const list = <T>(key: string, values: string, read: Reader<T>, test: Test<readonly T[]>): Row =>
    ask<readonly T[]>(listOf(read), test, facts(key, values), []);
  const texts = (key: string, values: string, read = digests): Row => list(key, values, read, all);
  const rowOf = (key: string): Row => {
    if (key === "application_events") return list(key, "domain operation content", application, applications);
    if (key === "boot_variables") return texts(key, "value", hexOf());
    return /commands|lines/.test(key) ? texts(key, "text", text) : texts(key, "digest");
  };
  return (value, ...place) => {
    /** Lists of one register: once one of them is stated, the others are too. */
    const together = (keys: readonly string[]): [string, Row][] => {
      const stated = isObject(value) && keys.some((key) => key in value);
      return keys.map((key) => [key, stated ? rowOf(key) : maybe(rowOf(key), [])]);
    };
    const stores = ["pk", "kek", "db", "dbx"].map((store): [string, Row] => [
      store,
      texts(store, `value_sha${8 * size}`),
    ]);
    const rows = section({
      required: flag(true, "eventlog.event_count", undefined, there),
      ...spare({
        secure_boot: ask(mustBe(true), is, "eventlog.secure_boot.enabled"),
        signature_stores: filled(section(spare(Object.fromEntries(stores)))),
      }),
      ...Object.fromEntries([FIRMWARE, LOADER, runtime].flatMap(together)),
    });
    return excused("eventlog", rows)(value, ...place);
  };
}
