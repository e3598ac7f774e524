/** The chosen files, and what a link asks for. */

import { rfc3339 } from "../../verifier/bytes";
import { byId, code, el, put } from "../dom";
import { type Examination, filesOf, used } from "./examination";
import type { Chosen } from "./sorting";
import { words } from "./words";

export const MOST_FILES = 64;

export function tellFiles(text: string): void {
  byId("files-told").textContent = text;
}

/** Show every file with its recognised kind. */
export function showFiles(examination: Examination, remove: (file: Chosen) => void): void {
  const { files } = examination;
  put(byId("chosen"), ...files.map((file) => lineOf(file, () => remove(file))));
  byId("waiting").textContent = waitingFor(examination);
  showNamed(examination);
}

function lineOf({ name, kind, size, sha256 }: Chosen, remove: () => void): HTMLElement {
  const { kinds, bytes, remove: label } = words();
  const isUsed = kind !== "unknown" && kind !== "large";
  return el(
    "li",
    { class: isUsed ? undefined : "refused" },
    el("button", { class: "plain remove", type: "button", "aria-label": label(name), click: remove }, "✕"),
    el("bdi", {}, name),
    `: ${kinds[kind]}, ${bytes(size.toLocaleString(document.documentElement.lang))}`,
    sha256 !== "" && el("small", {}, "SHA-256 ", code(sha256)),
  );
}

function waitingFor(examination: Examination): string {
  const { link, noEvidence } = words();
  const { files, named, hasNamedPolicy } = examination;
  if (named) return files.length && (examination.missing().length || !hasNamedPolicy) ? link.waiting : "";
  return files.length && !filesOf(files, "evidence").length ? noEvidence : "";
}

/** Show which files of the link have been added. */
function showNamed(examination: Examination): void {
  const { link } = words();
  const { named, hasNamedPolicy } = examination;
  const place = byId("named");
  if (!named) {
    place.replaceChildren();
    return;
  }
  const missing = examination.missing();
  const mark = (isHere: boolean): string => (isHere ? link.here : link.missing);
  const line = (text: string, isHere: boolean): HTMLElement => el("li", {}, mark(isHere), el("small", {}, text));
  const isComplete = !missing.length && hasNamedPolicy;
  put(
    place,
    el("p", {}, isComplete ? link.complete : link.asks(named.files.length)),
    el(
      "ul",
      { class: "rows" },
      ...named.files.map((digest) => line(link.file(digest), !missing.includes(digest))),
      named.policy !== undefined && line(link.policy(named.policy), hasNamedPolicy),
    ),
    el("p", { class: "quiet" }, link.moment(rfc3339(named.at))),
    el("button", { id: "ignore-link", type: "button", click: () => ignore(examination) }, link.ignore),
  );
}

function ignore(examination: Examination): void {
  history.replaceState(undefined, "", location.pathname + location.search);
  examination.named = undefined;
  examination.question = { ...examination.question, at: undefined };
  byId("at", HTMLInputElement).value = "";
  tellFiles("");
  void examination.check();
}

/** The files that may be added: no duplicates, a bounded number, and only those that the link names. */
export function acceptable({ files, named }: Examination, more: readonly Chosen[]): readonly [Chosen[], string[]] {
  const { link, tooMany } = words();
  const told: string[] = [];
  const taken: Chosen[] = [];
  for (const file of more) {
    const isKnown = [...files, ...taken].some(({ sha256 }) => sha256 !== "" && sha256 === file.sha256);
    const isUsed = used([file]).length > 0;
    if (isKnown) continue;
    if (files.length + taken.length >= MOST_FILES) told.push(tooMany(MOST_FILES));
    else if (named && isUsed && !named.files.includes(file.sha256)) told.push(link.other(file.name));
    else taken.push(file);
  }
  return [taken, [...new Set(told)]];
}
