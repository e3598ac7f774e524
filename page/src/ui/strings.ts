/** The language of the page: chosen by the browser, and fetched alone. */

import { part } from "../verifier/parts";
import type { Shell } from "./strings/en/shell";
import type { Strings } from "./strings/en/whole";

export type { Strings } from "./strings/en/whole";

interface Language {
  readonly shell: () => Promise<Shell>;
  readonly whole: () => Promise<Strings>;
}

const LANGUAGES: Readonly<Record<string, Language>> = {
  en: {
    shell: async () => (await part(import("./strings/en/shell"))).shell,
    whole: async () => (await part(import("./strings/en/whole"))).whole,
  },
  de: {
    shell: async () => (await part(import("./strings/de/shell"))).shell,
    whole: async () => (await part(import("./strings/de/whole"))).whole,
  },
  fr: {
    shell: async () => (await part(import("./strings/fr/shell"))).shell,
    whole: async () => (await part(import("./strings/fr/whole"))).whole,
  },
};

let current: Strings | undefined;

/** The first language of a browser's list that there is, or English. */
export function languageOf(wanted: readonly string[]): string {
  const tags = wanted.map((tag) => tag.split("-")[0]?.toLowerCase() ?? "");
  return tags.find((tag) => Object.hasOwn(LANGUAGES, tag)) ?? "en";
}

const of = (language: string): Language => LANGUAGES[language]!; // one that `languageOf` returned

/** Fetch what is said before anything is known. */
export const shellOf = (language: string): Promise<Shell> => of(language).shell();

/** Fetch everything else, of which a page may say something in another way. */
export async function speak(language: string, said = (whole: Strings): Strings => whole): Promise<void> {
  current = said(await of(language).whole());
}

/** The words in the language that was fetched. */
export function say(): Strings {
  if (!current) throw new TypeError("no language was fetched");
  return current;
}
