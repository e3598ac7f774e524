/** The question that is asked back before a machine is accepted: what matters most of it, and a word to type. */

import type { Row } from "../policy/row";
import { byId, el, put } from "./dom";
import { type Lowered, isWary } from "./guard";
import { say } from "./strings";
import type { Subject } from "./subject";
import { tell } from "./status";
import { day } from "./moments";
import { rowWords } from "./words";

const MATTERS: readonly RegExp[] = [
  /^not_simulated/,
  /measurement|mr_td|mr_enclave|compose|pcr4/,
  /^policy\./,
  /tcb|module|signer/,
  /gpu/,
];
const MOST = 3;

/** The rows that matter most: what is less than before, then what runs, then what protects it. */
function important(rows: readonly Row[], less: readonly Lowered[]): readonly Row[] {
  const rank = (row: Row): number => {
    if (less.some((one) => one.row.id === row.id)) return -1;
    const found = MATTERS.findIndex((pattern) => pattern.test(row.id));
    return found < 0 ? MATTERS.length : found;
  };
  return [...rows].sort((a, b) => rank(a) - rank(b)).slice(0, Math.max(MOST, less.length));
}

export interface Question {
  readonly title: string;
  readonly yes: string;
  readonly less: readonly Lowered[];
  /** Only the typed word is a consent. */
  readonly mustType: boolean;
  readonly done: () => void;
  /** Shows each value. */
  readonly each?: () => void;
}

/** Ask in the place of the button that was pressed, and give the question the focus. */
export function askBack(place: Element, rows: readonly Row[], question: Question): void {
  const { confirm } = say();
  const title = el("h3", { tabindex: "-1" }, question.title);
  const typed = el("input", { id: "typed", autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
  const agree = (event: Event): void => {
    event.preventDefault();
    if (question.mustType && typed.value.trim().toLowerCase() !== confirm.word) {
      tell(confirm.wordMissing(confirm.word));
      typed.focus();
      return;
    }
    tell("");
    place.replaceChildren();
    question.done();
  };
  const label = el("label", {}, confirm.wordLabel(confirm.word), typed);
  const form = el(
    "form",
    { id: "confirm", submit: agree },
    title,
    el("ol", {}, ...important(rows, question.less).map((row) => matter(row, question.less))),
    question.mustType && label,
    el("button", { class: "primary", id: "agree" }, question.yes),
    question.each && el("button", { type: "button", click: question.each }, confirm.each),
  );
  put(place, form);
  title.focus();
  form.scrollIntoView({ block: "nearest" });
}

function matter(row: Row, less: readonly Lowered[]): HTMLElement {
  const [name, meaning] = rowWords(row);
  const found = less.find((one) => one.row.id === row.id);
  return el("li", {}, el("strong", {}, name), el("span", { class: "sentence" }, meaning), found && loweredText(found));
}

/** What is less than before: the number itself is marked, and what it was stands behind it. */
export function loweredText({ now, before, at }: Lowered): HTMLElement {
  const { confirm } = say();
  const told = before ? confirm.older(before, day(at)) : confirm.other(day(at));
  return el("p", { class: "lowered" }, "⚠ ", now && el("mark", {}, now), ` ${told}`);
}

/** A refused machine is accepted only with the typed word, also under a policy from elsewhere. */
export function consented(subject: Subject, what: string, done: () => void): void {
  const { confirm } = say();
  if (!isWary(subject.memory)) done();
  else askBack(byId("shared"), [], { title: confirm.instead(what), yes: confirm.take, less: [], mustType: true, done });
}
