/** The decision: what a machine reports, row by row, what of it is accepted, and what is asked back before. */

import type { Choice, Row } from "../policy/row";
import { firmwareRows } from "../policy/firmware";
import { showAges } from "./ages";
import { askBack, loweredText } from "./confirm";
import { byId, code, el, put } from "./dom";
import { type Lowered, historyOf, isWary, lowered, remember } from "./guard";
import { accepting } from "./judge";
import { offerDecision, openOf } from "./decide";
import { keepSource } from "./source";
import type { State } from "./state";
import { say, sayFirst } from "./strings";
import type { Subject } from "./subject";
import { tell } from "./status";
import { take } from "./taking";
import { rowName, rowWords, worstFirst } from "./words";

let shown = "";

/** The rows of a verdict, with those of old firmware, which decide nothing. */
const allRows = ({ rows, result }: State): readonly Row[] =>
  rows.length && result ? [...rows, ...firmwareRows(result)] : rows;

/** Show the rows, changed ones first. What a person has chosen stays while the same is reported. */
export function showRows(subject: Subject): void {
  const told = JSON.stringify([subject.state.rows, subject.state.phase]);
  if (shown === told) return;
  shown = told;
  put(byId("trust"), ...rowsOf(subject, openOf(subject.state)));
}

function rowsOf(subject: Subject, open: readonly Row[]): Node[] {
  const { nothingVerified, tickAll, use } = say();
  const rows = worstFirst(allRows(subject.state));
  if (!rows.length) return [el("p", {}, nothingVerified)];
  const less = new Map(lowered(open, historyOf(subject.memory)).map((one) => [one.row.id, one]));
  const buttons = [
    open.length > 1 && el("button", { id: "tick", click: () => confirmTicks(subject, open) }, tickAll),
    open.length > 0 && el("button", { id: "use", click: () => acceptTicked(subject, open) }, use),
  ];
  const list = el("ul", { id: "rows" }, ...rows.map((row) => rowOf(row, open, less.get(row.id))));
  const result = subject.state.result;
  if (result) showAges(list, rows, result);
  return [list, el("p", {}, ...buttons)];
}

function rowOf(row: Row, open: readonly Row[], less: Lowered | undefined): HTMLElement {
  const { table, none } = say();
  const { outcomes } = sayFirst();
  const [name, meaning, source] = rowWords(row);
  const { id, reported, demanded, outcome } = row;
  return el(
    "li",
    { id: `row ${id}` },
    el("strong", {}, name),
    el("span", { class: `sign ${outcome.replace(" ", "-")}` }, outcomes[outcome]),
    el("p", {}, meaning),
    less && loweredText(less),
    el(
      "dl",
      {},
      el("dt", {}, table.reported),
      el("dd", {}, code(reported), el("small", {}, source)),
      el("dt", {}, table.policy),
      el("dd", {}, demanded ? code(demanded) : none),
    ),
    open.includes(row) && decisionOf(row),
  );
}

function decisionOf(row: Row): HTMLElement {
  const { trust, how, choices } = say();
  const { id, kinds } = row;
  const name = rowName(row);
  const box = el("input", { type: "checkbox", id: `trust ${id}`, "aria-label": `${trust}: ${name}` });
  const choice =
    kinds.length > 1 &&
    el(
      "select",
      { id: `kind ${id}`, "aria-label": how(name) },
      ...kinds.map((kind) => el("option", { value: kind }, choices[kind])),
    );
  const only = kinds.length === 1 && kinds[0] && `, ${choices[kinds[0]]}`;
  return el("p", { class: "choice" }, el("label", {}, box, ` ${trust}`, only), choice);
}

// -- accepting

const box = (id: string): HTMLInputElement => byId(`trust ${id}`, HTMLInputElement);
const tick = (open: readonly Row[]): void => open.forEach(({ id }) => (box(id).checked = true));

/** Show again what a person wants to look at, value by value. */
function openEach(): void {
  const place = byId("each", HTMLDetailsElement);
  place.open = true;
  place.querySelector("summary")?.focus();
  place.scrollIntoView();
}

function confirmTicks(subject: Subject, open: readonly Row[]): void {
  const { tickAllTitle, tickAllYes } = say();
  askBack(byId("decide"), open, {
    title: tickAllTitle,
    yes: tickAllYes,
    less: [],
    mustType: false,
    done: () => {
      tick(open);
      offer(subject);
      byId("use").focus();
    },
    each: openEach,
  });
}

function acceptTicked(subject: Subject, open: readonly Row[]): void {
  const left = open.filter(({ id }) => !box(id).checked);
  if (left.length) {
    tell(say().notYet(left.map(rowName).join(", ")));
    box(left[0]!.id).focus();
    return;
  }
  if (guarded(subject, open).mustType) confirmAll(subject);
  else void accept(subject, open);
}

/** What is less than before; from red back to green leads only the typed word. */
function guarded(subject: Subject, open: readonly Row[]): { less: readonly Lowered[]; mustType: boolean } {
  const less = lowered(open, historyOf(subject.memory));
  return { less, mustType: less.length > 0 || isWary(subject.memory) };
}

const offer = (subject: Subject): void => offerDecision(subject.state, () => confirmAll(subject));

/** Ask back whether everything that is open is accepted. */
export function confirmAll(subject: Subject): void {
  const { confirm } = say();
  const open = openOf(subject.state);
  if (!open.length) return;
  showRows(subject);
  askBack(byId("decide"), open, {
    title: open.length > 3 ? confirm.title(open.length) : confirm.titleFew,
    yes: confirm.yes,
    ...guarded(subject, open),
    done: () => void accept(subject, open),
    each: () => {
      offer(subject);
      openEach();
    },
  });
}

async function accept(subject: Subject, chosen: readonly Row[]): Promise<void> {
  const { result, at } = subject.state;
  if (!result || at === undefined) return;
  const kindOf = ({ id, kinds }: Row): Choice =>
    kinds.length > 1 ? (byId(`kind ${id}`, HTMLSelectElement).value as Choice) : (kinds[0] ?? "exact");
  const choices = Object.fromEntries(chosen.map((row) => [row.id, kindOf(row)]));
  await take(
    subject,
    () => accepting(result, choices, subject.memory.get("policy"), at),
    say().taken,
    () => {
      remember(subject.memory, chosen, at);
      keepSource(subject.memory, { by: "here", at });
    },
  );
}
