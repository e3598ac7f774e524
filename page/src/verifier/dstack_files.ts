/** dstack's answers as items of evidence: GetQuote, Info and app-compose as files of their own (dstack.md 7). */

import { type Bytes, hex, latin1, utf8, utf8Text } from "./bytes";
import { hexBytes } from "./encoding";
import { type Item, MEDIA, itemOf } from "./envelope";
import { fail, refusalOf } from "./errors";
import { type JsonObject, type JsonValue, isObject } from "./json";
import { jsonText } from "./json_text";

/** Statements beside a quote, as the members of an item: `report_data`, `vm_config`, `info`, `app_compose`. */
export type Stated = Readonly<JsonObject>;

const has = (document: JsonValue | undefined, ...names: readonly string[]): document is JsonObject =>
  isObject(document) && names.every((name) => name in document);

/** Trustee's evidence has another name for its log; documents of services have the quote of their machine, too. */
export const isQuoteAnswer = (document: JsonValue): document is JsonObject =>
  has(document, "quote", "event_log") && !("intel_quote" in document);
export const isInfo = (document: JsonValue): boolean => has(document, "app_id", "tcb_info");
export const isAppCompose = (document: JsonValue): boolean => has(document, "manifest_version", "runner");
/** A log proves nothing alone, and an attestation in SCALE or msgpack is not read. */
export const isUnread = (document: JsonValue): boolean =>
  Array.isArray(document)
    ? has(document[0], "imr", "event_type", "digest")
    : has(document, "attestation") && Object.keys(document).length === 1 && typeof document.attestation === "string";

/** An answer of Attest in msgpack: a map with the name of its stack in it; in CBOR a text begins with another byte. */
export const isPacked = (data: Bytes): boolean =>
  /^(?:8.|de.{4}|df.{8})(?:[ab].|d9..)(?:6[1-9a-f]|7[\da])/.test(hex(data.subarray(0, 8))) &&
  latin1(data).includes("dstack");

const malformed = (field: string, expected: string): never =>
  fail("malformed", "dstack-malformed", "", { check: "dstack.log", field, expected, got: "another value" });

/** The quote and the log of an answer of GetQuote. */
export async function quoteAnswerItems({ quote, event_log: log }: JsonObject): Promise<readonly Item[]> {
  const bytes = await refusalOf(() => (typeof quote === "string" ? hexBytes(quote, "quote") : undefined));
  const value = typeof log === "string" ? log : jsonText(log ?? null, { isSorted: true });
  return [
    itemOf("cpu", MEDIA.intelQuote, bytes instanceof Uint8Array ? bytes : malformed("quote", "hex")),
    itemOf("eventlog", MEDIA.dstackLog, utf8(value)),
  ];
}

/** The other statements of an answer of GetQuote; members that nothing rests on are left out. */
export const answerStatements = (answer: JsonObject): Stated =>
  Object.fromEntries(["report_data", "vm_config"].flatMap((name) => (name in answer ? [[name, answer[name]!]] : [])));

/** The text of app-compose, whose exact bytes count. */
export const appComposeStatements = (bytes: Bytes): Stated => ({
  app_compose: utf8Text(bytes) ?? malformed("app_compose", "UTF-8"),
});

/** Put what several files state into one item. */
export const statementsItem = (stated: readonly Stated[]): Item =>
  itemOf(
    "dstack",
    MEDIA.dstackStatements,
    utf8(jsonText(Object.assign({}, ...stated) as JsonObject, { isSorted: true })),
  );
