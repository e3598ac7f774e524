/** Texts of the page for files and of the history, loaded on demand. */

import { part } from "../../verifier/parts";
import { type First, type Rest, type Seen, languageOf } from "../strings";
import type { Alone } from "../strings/en/alone";

export type { Alone } from "../strings/en/alone";

const LANGUAGES: Readonly<Record<string, () => Promise<Alone>>> = {
  en: async () => (await part(import("../strings/en/alone"))).alone,
  de: async () => (await part(import("../strings/de/alone"))).alone,
  fr: async () => (await part(import("../strings/fr/alone"))).alone,
};

let current: Alone | undefined;

/** Load the texts of a language. */
export async function wordsIn(language: string): Promise<Alone> {
  current ??= await (LANGUAGES[language] ?? LANGUAGES.en!)();
  return current;
}

/** The loaded texts. */
export function words(): Alone {
  if (!current) throw new TypeError("no words were fetched");
  return current;
}

/** Texts that replace those about a service: of the verdict. */
export async function firstAboutFiles(first: First): Promise<First> {
  const { instead } = await wordsIn(languageOf(navigator.languages));
  const { proved, states, pending } = instead;
  return {
    ...first,
    proved,

    states: { ...first.states, ...states },
    facts: { ...first.facts, pending },
  };
}

/** Texts that replace those about a service: beside the verdict. */
export const seenAboutFiles = (seen: Seen): Seen => ({ ...seen, chain: { ...seen.chain, ...words().instead.chain } });

/** Texts that replace those about a service: everything else. */
export function aboutFiles(rest: Rest): Rest {
  const { problem, now, doNotRely, refusedByPolicy, nothingSent } = words().instead;
  const kinds = Object.entries(rest.problems).map(([kind, [what, todo]]) => {
    const name = kind as keyof typeof now;
    return [kind, [problem[name] ?? what, ofThePage.includes(kind) ? todo : (now[name] ?? doNotRely)]];
  });
  return {
    ...rest,
    refusedByPolicy,
    nothingSent,
    problems: Object.fromEntries(kinds) as Rest["problems"],
  };
}

/** Problems that are not about evidence. */
const ofThePage = ["insecure", "reload", "defect", "policy", "references"];
