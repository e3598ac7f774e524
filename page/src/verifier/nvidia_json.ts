/** NVIDIA's SDK JSON: one object or array of devices, cut into items of one device each. */

import type { Item } from "./envelope";
import type { JsonValue } from "./json";

export function isNvidiaJson(_document: JsonValue): boolean {
  return false;
}

/** Items named `gpu0`, `nvswitch0`, …, numbered among their like. */
export function splitNvidiaJson(_document: JsonValue): Item[] {
  return [];
}
