/** Compact JSON as Python writes it: ASCII only, numbers as they were read. */

import { JsonFloat, type JsonValue, isObject } from "../json";

function textOf(text: string): string {
  return JSON.stringify(text).replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function jsonText(value: JsonValue): string {
  if (typeof value === "string") return textOf(value);
  if (Array.isArray(value)) return `[${value.map(jsonText).join()}]`;
  if (isObject(value)) return `{${Object.entries(value).map(([name, member]) => `${textOf(name)}:${jsonText(member)}`).join()}}`;
  if (value instanceof JsonFloat) return Number.isInteger(value.value) ? `${value.value}.0` : `${value.value}`;
  return String(value);
}
