/** The document's own elements in the language that was chosen. */

import { byId } from "./dom";

/** Fill in names and labels, and show the page: its script runs. */
export function label(language: string, words: Readonly<Record<string, string>>): void {
  document.documentElement.lang = language;
  for (const place of document.querySelectorAll<HTMLElement>("[data-say]")) {
    place.textContent = words[place.dataset.say ?? ""] ?? "";
  }
  for (const place of document.querySelectorAll<HTMLElement>("[data-name]")) {
    place.setAttribute("aria-label", words[place.dataset.name ?? ""] ?? "");
  }
  byId("unstarted").remove();
  document.querySelector("main")!.hidden = false;
}

/** This browser's store, if the page may use it. */
export function storeOf(): Storage | undefined {
  try {
    return localStorage;
  } catch {
    return undefined;
  }
}
