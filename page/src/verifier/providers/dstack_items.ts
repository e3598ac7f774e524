/** Quote, event log and statements of a dstack machine as items of evidence. */

import { type Bytes, utf8 } from "../bytes";
import { type Item, MEDIA, itemOf } from "../envelope";
import type { JsonObject } from "../json";
import { jsonText } from "../json_text";
import { given } from "./values";

const STATED = ["report_data", "vm_config", "info"];

/** Quote, event log and statements of a dstack machine; the log may be an array or its text. */
export function dstackItems(quote: Bytes, members: JsonObject): readonly Item[] {
  const log = members.event_log ?? null;
  const stated = Object.fromEntries(
    STATED.flatMap((name) => (given(members, name) ? [[name, members[name]!] as const] : [])),
  );
  const text = typeof log === "string" ? log : jsonText(log);
  return [
    itemOf("cpu", MEDIA.intelQuote, quote),
    ...(log === null ? [] : [itemOf("eventlog", MEDIA.dstackLog, utf8(text))]),
    ...(Object.keys(stated).length ? [itemOf("dstack", MEDIA.dstackStatements, utf8(jsonText(stated)))] : []),
  ];
}
