/** The parts of a policy, ready to judge: the rules of a section, bodies, and alternatives. */

import type { Claims } from "./claims";
import type { ItemResult } from "../verifier/api";
import { type PolicyCheck, type Rule, judge } from "./rules";

/** One walk through a policy, which collects a check for every rule, in order. */
export interface Walk {
  readonly items: readonly ItemResult[];
  /** The GPUs and switches of each machine, with its name where there are several. */
  readonly sets: readonly { readonly name: string | undefined; readonly claims: Claims }[];
  readonly at: number;
  readonly reasons: ReadonlyMap<string, string>;
  readonly checks: PolicyCheck[];
  /** Branches of alternatives that do not hold: their checks are told and do not count. */
  readonly aside: Set<string>;
}

interface Judged {
  readonly path: string;
  readonly holds: boolean;
  /** Kinds of Attesters that were judged. */
  readonly kinds: readonly string[];
  /** Itself, if it is a branch, and all within. */
  readonly branches: readonly string[];
}

/** A part of a policy, ready to judge. */
export type Judge = (walk: Walk) => Judged;

const kindsOf = (found: readonly Judged[]): string[] => found.flatMap(({ kinds }) => kinds);
const branchesOf = (found: readonly Judged[]): string[] => found.flatMap(({ branches }) => branches);

/** The rules of one section, for each item of its kind; without a kind, for all devices together. */
export const leaf =
  (path: string, kind: string, rules: readonly Rule[]): Judge =>
  ({ items, sets, at, reasons, checks }) => {
    const subjects = kind ? items.filter((item) => item.kind === kind) : sets;
    const found = subjects.flatMap(({ name, claims }) =>
      rules.map((rule) => judge(rule, claims, at, reasons, { item: name, branch: path || undefined })),
    );
    checks.push(...found);
    return { path, holds: found.every(({ outcome }) => outcome !== "fail"), kinds: kind ? [kind] : [], branches: [] };
  };

/** A body: everything in it is demanded. */
export const all =
  (path: string, members: readonly Judge[]): Judge =>
  (walk) => {
    const found = members.map((member) => member(walk));
    return {
      path,
      holds: found.every(({ holds }) => holds),
      kinds: kindsOf(found),
      branches: [path, ...branchesOf(found)],
    };
  };

/** Alternatives of which so many have to hold. */
export const choiceOf =
  (path: string, word: string, count: number, of: readonly Judge[]): Judge =>
  (walk) => {
    const place = walk.checks.length;
    const found = of.map((member) => member(walk));
    const met = found.filter(({ holds }) => holds);
    for (const { holds, branches } of found) if (!holds) branches.forEach((branch) => walk.aside.add(branch));
    const holds = met.length >= count;
    const names = (list: readonly Judged[]): string => list.map((member) => member.path).join(", ");
    const check: PolicyCheck = {
      id: `policy.${word}`,
      outcome: holds ? "pass" : "fail",
      expected: `at least ${count} of ${names(found)}`,
      got: names(met) || "none of them",
      branch: path || undefined,
    };
    walk.checks.splice(place, 0, check);
    // Once enough hold, only what they judged has been judged.
    return { path, holds, kinds: kindsOf(holds ? met : found), branches: branchesOf(found) };
  };
