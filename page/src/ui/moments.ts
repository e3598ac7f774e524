/** Moments, and what there is of several parts. */

import { sayFirst } from "./strings";

/** What there is of several parts. */
export const joined = (...parts: readonly (string | false | undefined)[]): string => parts.filter(Boolean).join(" ");

/** An absolute moment, and how long ago. */
export function moment(at: number, now: number): string {
  const { ago } = sayFirst();
  const seconds = Math.max(0, Math.round((now - at) / 1000));
  const told = seconds < 60 ? ago(seconds, "s") : ago(Math.round(seconds / 60), "min");
  return `${new Date(at).toISOString().slice(0, 19).replace("T", " ")} UTC, ${told}`;
}

export const day = (at: number): string => new Date(at).toISOString().slice(0, 10);
