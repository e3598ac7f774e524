/** The table "reported now, your policy, result", and what a person accepts of it. */

import type { Choice, Row } from "../policy/draft";
import { filesOf } from "../policy/kept";
import { byId, code, download, el, put } from "./dom";
import { accepting } from "./judge";
import { type Session, problemLine } from "./session";
import type { State } from "./state";
import { SIGNS, worstFirst } from "./words";

const CHOICES: Readonly<Record<Choice, string>> = { exact: "exactly this", newer: "this or newer" };

let shown: readonly Row[] | undefined;

/** What is to be decided: everything at first, and later what the policy does not accept. */
function openOf({ phase, policy, rows }: State): readonly Row[] {
  return phase === "trusted"
    ? []
    : rows.filter(({ outcome, kinds }) => kinds.length && (!policy || outcome === "fail"));
}

/** Show the rows, changed ones first. What a person has chosen stays while the same is reported. */
export function showTrust(session: Session): void {
  const { state, memory } = session;
  for (const id of ["export", "forget"]) byId(id).toggleAttribute("disabled", memory.get("policy") === undefined);
  if (JSON.stringify(shown) === JSON.stringify(state.rows)) return;
  shown = state.rows;
  if (state.phase === "stopped") tell("");
  const rows = worstFirst(shown);
  const open = openOf(state);
  put(
    byId("trust"),
    rows.length ? table(rows, open) : el("p", {}, "Nothing was verified yet."),
    open.length > 1 &&
      el(
        "button",
        { click: () => open.forEach(({ id }) => (byId(`trust ${id}`, HTMLInputElement).checked = true)) },
        "Tick all",
      ),
    open.length > 0 &&
      el("button", { id: "accept", click: () => void accept(session, open) }, "Use what I trust as my policy"),
  );
}

function table(rows: readonly Row[], open: readonly Row[]): HTMLElement {
  const head = ["", "Reported now", "Your policy", "Result"].map((text) =>
    el("th", { scope: "col" }, text || el("span", {}, "What")),
  );
  return el(
    "table",
    {},
    el("thead", {}, el("tr", {}, ...head)),
    el("tbody", {}, ...rows.map((row) => rowOf(row, open))),
  );
}

function rowOf(row: Row, open: readonly Row[]): HTMLElement {
  const { id, label, reported, demanded, outcome } = row;
  const kinds = open.includes(row) ? row.kinds : [];
  const choice =
    kinds.length > 1 &&
    el(
      "select",
      { id: `kind ${id}`, "aria-label": `How to accept ${label}` },
      ...kinds.map((kind) => el("option", { value: kind }, CHOICES[kind])),
    );
  const only = kinds.length === 1 && kinds[0] && ` ${CHOICES[kinds[0]]}`;
  const decide =
    kinds.length > 0 &&
    el(
      "div",
      {},
      el(
        "label",
        {},
        el("input", { type: "checkbox", id: `trust ${id}`, "aria-label": `I trust this: ${label}` }),
        " I trust this",
        only,
      ),
      choice,
    );
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, label),
    el("td", { "data-of": "Reported" }, code(reported)),
    el("td", { "data-of": "Policy" }, demanded ? code(demanded) : "–"),
    el("td", { "data-of": "Result" }, el("span", { class: outcome }, SIGNS[outcome]), decide),
  );
}

function tell(text: string): void {
  byId("policy-told").textContent = text;
}

async function accept(session: Session, chosen: readonly Row[]): Promise<void> {
  const left = chosen.filter(({ id }) => !byId(`trust ${id}`, HTMLInputElement).checked);
  if (left.length) {
    tell(`Not yet: you have not said that you trust ${left.map(({ label }) => label).join(", ")}.`);
    byId(`trust ${left[0]?.id}`).focus();
    return;
  }
  const { result, at } = session.state;
  if (!result || at === undefined) return;
  const kindOf = ({ id, kinds }: Row): Choice =>
    kinds.length > 1 ? (byId(`kind ${id}`, HTMLSelectElement).value as Choice) : (kinds[0] ?? "exact");
  await take(
    session,
    () =>
      accepting(
        result,
        Object.fromEntries(chosen.map((row) => [row.id, kindOf(row)])),
        session.memory.get("policy"),
        at,
      ),
    "This is your policy now.",
  );
}

async function take(session: Session, policy: () => Promise<string>, done: string): Promise<void> {
  try {
    await session.accept(await policy());
    tell(done);
  } catch (error) {
    tell(`Not taken: ${problemLine(error)}`);
  }
}

export function startTrust(session: Session, checked: (texts: readonly string[]) => Promise<string>): void {
  const file = byId("load", HTMLInputElement);
  file.addEventListener("change", () => {
    const chosen = [...(file.files ?? [])];
    const names = chosen.map(({ name }) => name).join(", ");
    if (names) {
      void take(
        session,
        async () => checked(await Promise.all(chosen.map((one) => one.text()))),
        `${names} is your policy now.`,
      ).finally(() => (file.value = ""));
    }
  });
  byId("export").addEventListener("click", () =>
    filesOf(session.memory.get("policy") ?? "").forEach(({ name, part }) => download(name, part)),
  );
  byId("forget").addEventListener("click", () => {
    void session.accept(undefined).then(() => tell("There is no policy any more; nothing is sent."));
  });
}
