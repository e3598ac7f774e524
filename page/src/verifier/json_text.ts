/** Compact JSON as Python writes it: ASCII only, numbers as they were read. */

import { JsonFloat, type JsonValue, isObject } from "./json";

function quoted(text: string): string {
  return JSON.stringify(text).replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Write a value; with `sorted`, members in the order of their names. */
export function jsonText(value: JsonValue, sorted = false): string {
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) return `[${value.map((member) => jsonText(member, sorted)).join()}]`;
  if (isObject(value)) {
    const names = Object.keys(value);
    const members = (sorted ? names.sort() : names).map((name) => `${quoted(name)}:${jsonText(value[name] ?? null, sorted)}`);
    return `{${members.join()}}`;
  }
  if (value instanceof JsonFloat) return Number.isInteger(value.value) ? `${value.value}.0` : `${value.value}`;
  return String(value);
}
