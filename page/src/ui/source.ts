/** Where the policy in force came from. */

import type { Memory } from "./memory";
import { saySeen } from "./strings";
import { day } from "./moments";

export interface Source {
  readonly by: "here" | "file" | "link";
  readonly at: number;
  readonly names?: string;
}

export const keepSource = (memory: Memory, source: Source): void => memory.set("source", JSON.stringify(source));

export function authorOf(memory: Memory): string {
  const { inForce } = saySeen();
  try {
    const { by, at, names = "" } = JSON.parse(memory.get("source") ?? "") as Source;
    return { here: inForce.here(day(at)), file: inForce.file(names, day(at)), link: inForce.link(day(at)) }[by];
  } catch {
    return inForce.unknown;
  }
}
