/** Sentences that are put together out of the strings of a language. */

import type { Row } from "../policy/row";
import { kindOf } from "./problem_kinds";
import { type Problem, problemOf } from "./problems";
import { say, sayFirst } from "./strings";
import type { State } from "./state";

type Outcome = Row["outcome"];
/** The worst first, as lists show them. */
const OUTCOMES: readonly Outcome[] = ["fail", "warning", "not evaluated", "pass"];

export const worstFirst = <T extends { readonly outcome: Outcome }>(found: readonly T[]): T[] =>
  [...found].sort((a, b) => OUTCOMES.indexOf(a.outcome) - OUTCOMES.indexOf(b.outcome));

/** A sentence for a check; one without an entry says its id in words. */
export function sentence(id: string): string {
  const { freshness, questions, rim, rims, subjects } = say();
  if (id === "freshness") return freshness;
  const head = id.split(".", 1)[0]!; // at least empty
  const asked = id.slice(head.length + 1);
  // A RIM: what NVIDIA publishes of a driver, or of the firmware of a device.
  const [, part, question = ""] = /^(driver|vbios)_rim(.*)/.exec(asked) ?? [];
  const told = part ? rim(part, rims[question] ?? "") : questions[asked.split(".").pop()!];
  return `${subjects[head] ?? head}: ${told ?? asked.replaceAll(/[._]/g, " ")}`;
}

/** What a row is about: its name, what it means, and where the number comes from. */
export function rowWords({ id, subject }: Pick<Row, "id" | "subject">): readonly [string, string, string] {
  const { rows, pcr, firmwareRow, policyRow } = say();
  const register = /^azure\.pcr(\d+)$/.exec(id)?.[1];
  if (register) return pcr(register);
  if (id.startsWith("firmware.")) return firmwareRow(subject);
  const known = rows[id];
  if (!known) return policyRow(sentence(id));
  const [name, ...rest] = known;
  return [subject ? `${name} (${subject})` : name, ...rest];
}

export const rowName = (row: Pick<Row, "id" | "subject">): string => rowWords(row)[0];
const namesOf = (rows: readonly Row[]): string =>
  rows
    .filter(({ outcome }) => outcome === "fail")
    .map(rowName)
    .join("; ");

/** Why a machine or a service is refused, in one sentence. */
export function whyRefused({ rows, problem, result }: State): string {
  return problem || !result ? problemWords(problem)[0] : say().refusedByPolicy(namesOf(rows));
}

/** The state in other people's pages, whose policy is the site's. */
export function badgeWords({ phase, simulated, rows, problem }: State): readonly [string, string] {
  const { badge } = say();
  const { trusted, unknown } = badge;
  if (phase === "trusted") {
    return simulated ? [badge.trustedSimulated, badge.simulatedWhy] : [trusted, badge.trustedWhy];
  }
  if (phase === "unknown") {
    return simulated ? [badge.unknownSimulated, badge.simulatedWhy] : [unknown, badge.unknownWhy];
  }
  if (phase !== "refused") return [badge[phase], sayFirst().states[phase][1]];
  return [badge.refused, problem ? problemWords(problem).join(" ") : badge.refusedByPolicy(namesOf(rows))];
}

/** What happened, and what to do now. */
export function problemWords(problem: Problem | undefined): readonly [string, string] {
  return say().problems[kindOf(problem?.code ?? "")];
}

/** What went wrong, for a line of its own; the code stands behind it. */
export function problemLine(error: unknown): string {
  const problem = problemOf(error);
  return `${problemWords(problem).join(" ")} [${problem.code}]`;
}
