/** Compact JSON as Python writes it: ASCII only, numbers as they were read. */

import { JsonFloat, type JsonValue, isObject } from "./json";

const quoted = (text: string): string =>
  JSON.stringify(text).replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** Write a value; with `sorted`, members in the order of their names. */
export function jsonText(value: JsonValue, sorted = false): string {
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) return `[${value.map((member) => jsonText(member, sorted)).join(",")}]`;
  if (isObject(value)) {
    const names = sorted ? Object.keys(value).sort() : Object.keys(value);
    const members = names.map((name) => `${quoted(name)}:${jsonText(value[name]!, sorted)}`);
    return `{${members.join(",")}}`;
  }
  if (value instanceof JsonFloat) return value.value % 1 ? `${value.value}` : `${value.value}.0`;
  return String(value);
}
