/** The history of this browser, by service, and its deletion. */

import { byId, code, el, put } from "../dom";
import { day } from "../moments";
import { rowName } from "../words";
import { type Entry, changedValues, entriesIn, forget, servicesIn } from "./history";
import { words, wordsIn } from "./words";

/** Show the history of one service, or of all that this browser knows. */
export async function startHistory(store: Storage | undefined, language: string, service?: string): Promise<void> {
  await wordsIn(language);
  const place = byId("history");
  const services = service === undefined ? servicesIn(store) : [service];
  const lists = services.flatMap((each) => listOf(store, each, () => startHistory(store, language, service)));
  put(place, ...(lists.length ? lists : [el("p", {}, words().history.none)]));
}

function listOf(store: Storage | undefined, service: string, anew: () => Promise<void>): HTMLElement[] {
  const entries = entriesIn(keptIn(store, service));
  if (!store || !entries.length) return [];
  const newestFirst = entries.map((entry, i) => lineOf(entry, entries[i - 1])).reverse();
  const asked = el("div", {});
  const { remove, removeOf } = words().history;
  const button = el("button", { type: "button", "aria-label": removeOf(service) }, remove);
  button.addEventListener("click", () => confirm(asked, button, () => deleted(store, service, anew)));
  return [el("h3", {}, service), el("ol", { class: "rows history" }, ...newestFirst), button, asked];
}

function keptIn(store: Storage | undefined, service: string): string | null | undefined {
  try {
    return store?.getItem(`attest history ${service}`);
  } catch {
    return undefined;
  }
}

function lineOf(entry: Entry, before: Entry | undefined): HTMLElement {
  const { history } = words();
  const { at, accepted, simulated, policy } = entry;
  const changes = changedValues(before, entry);
  const kinds = [accepted ? history.accepted : history.refused, ...(simulated ? [history.simulated] : [])].join(", ");
  const title = before && el("p", {}, changes.length ? history.changed : history.unchanged);
  return el(
    "li",
    { class: accepted ? undefined : "refused" },
    el("strong", {}, `${day(at)}: ${kinds}`),
    el("small", {}, history.policy(policy.name, policy.version, policy.digest)),
    title,
    changes.length > 0 && el("ul", {}, ...changes.map(changeOf)),
  );
}

function changeOf([id, before, now]: readonly [string, string, string]): HTMLElement {
  return el("li", {}, `${rowName({ id, subject: "" })}: `, code(before), " → ", code(now));
}

/** Ask back, in the place of the button. */
function confirm(place: HTMLElement, button: HTMLElement, done: () => void): void {
  const { sure, yes, no } = words().history;
  const keep = (): void => {
    place.replaceChildren();
    button.focus();
  };
  const agree = el("button", { type: "button", class: "delete-history", click: done }, yes);
  put(place, el("p", {}, sure), agree, el("button", { type: "button", click: keep }, no));
  agree.focus();
}

function deleted(store: Storage, service: string, anew: () => Promise<void>): void {
  forget(store, service);
  void anew().then(() => {
    const told = el("p", { role: "status", tabindex: "-1" }, words().history.removed);
    byId("history").prepend(told);
    told.focus();
  });
}
