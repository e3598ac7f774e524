/** Compact JSON as Python writes it, numbers as they were read. */

import { hex, utf8 } from "./bytes";
import { JsonFloat, type JsonValue, isObject } from "./json";

export interface Writing {
  /** Members in the order of the code points of their names; else in that of the document. */
  readonly isSorted?: boolean;
  /** All other text as it is; else escaped. */
  readonly isUnicode?: boolean;
}

const escaped = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;

export function jsonText(value: JsonValue, writing: Writing = {}): string {
  const { isSorted = false, isUnicode = false } = writing;
  const quoted = (text: string): string =>
    isUnicode ? JSON.stringify(text) : JSON.stringify(text).replace(/[\x7f-\uffff]/g, escaped);
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) return `[${value.map((member) => jsonText(member, writing)).join(",")}]`;
  if (isObject(value)) {
    const names = isSorted ? inOrder(Object.keys(value)) : Object.keys(value);
    return `{${names.map((name) => `${quoted(name)}:${jsonText(value[name]!, writing)}`).join(",")}}`;
  }
  return value instanceof JsonFloat ? floatText(value.value) : String(value);
}

/** Names in the order of their code points, which is that of their bytes; UTF-16 has another one. */
export function inOrder(names: readonly string[]): readonly string[] {
  const keyed = names.map((name) => [hex(utf8(name)), name] as const);
  return keyed.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, name]) => name);
}

/** The shortest digits that give the number again: positional from 1e-4 up to 1e16, else with an exponent. */
function floatText(value: number): string {
  const [digits, exponent = ""] = value.toExponential().split("e");
  const power = Number(exponent);
  if (Object.is(value, -0)) return "-0.0";
  if (power >= -4 && power < 16) return Number.isInteger(value) ? `${value}.0` : `${value}`;
  return `${digits}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
}
