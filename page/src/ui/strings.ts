/** The language of the page: chosen by the browser, and fetched alone. */

import { part } from "../verifier/parts";
import type { First } from "./strings/en/first";
import type { Rest } from "./strings/en/rest";
import type { Seen } from "./strings/en/seen";

export type { First } from "./strings/en/first";
export type { Rest } from "./strings/en/rest";
export type { Seen } from "./strings/en/seen";

interface Language {
  readonly first: () => Promise<First>;
  readonly seen: () => Promise<Seen>;
  readonly rest: () => Promise<Rest>;
}

const LANGUAGES: Readonly<Record<string, Language>> = {
  en: {
    first: async () => (await part(import("./strings/en/first"))).first,
    seen: async () => (await part(import("./strings/en/seen"))).seen,
    rest: async () => (await part(import("./strings/en/rest"))).rest,
  },
  de: {
    first: async () => (await part(import("./strings/de/first"))).first,
    seen: async () => (await part(import("./strings/de/seen"))).seen,
    rest: async () => (await part(import("./strings/de/rest"))).rest,
  },
  fr: {
    first: async () => (await part(import("./strings/fr/first"))).first,
    seen: async () => (await part(import("./strings/fr/seen"))).seen,
    rest: async () => (await part(import("./strings/fr/rest"))).rest,
  },
};

const fetched: { first?: First; seen?: Seen; rest?: Rest } = {};

/** The first language of a browser's list that there is, or English. */
export function languageOf(wanted: readonly string[]): string {
  const tags = wanted.map((tag) => tag.split("-")[0]?.toLowerCase() ?? "");
  return tags.find((tag) => Object.hasOwn(LANGUAGES, tag)) ?? "en";
}

const of = (language: string): Language => LANGUAGES[language]!; // one that `languageOf` returned

/** Fetch what is said until the first verdict, of which a page may say something in another way. */
export async function speakFirst(
  language: string,
  said = async (first: First): Promise<First> => Promise.resolve(first),
): Promise<First> {
  fetched.first = await said(await of(language).first());
  return fetched.first;
}

/** Fetch what is said beside the verdict before a person acts, in the same way. */
export async function speakSeen(language: string, said = (seen: Seen): Seen => seen): Promise<void> {
  fetched.seen = said(await of(language).seen());
}

/** Fetch everything else, in the same way. */
export async function speak(language: string, said = (rest: Rest): Rest => rest): Promise<void> {
  fetched.rest ??= said(await of(language).rest());
}

/** What is said until the first verdict, in the language that was fetched. */
export const sayFirst = (): First => needed(fetched.first);

/** What is said beside the verdict before a person acts. */
export const saySeen = (): Seen => needed(fetched.seen);

/** Everything else. */
export const say = (): Rest => needed(fetched.rest);

function needed<T>(words: T | undefined): T {
  if (!words) throw new TypeError("no language was fetched");
  return words;
}
