/** The place of a person's documents, before their list is read. */

import { byId, el, put } from "./dom";
import type { Session } from "./session";
import { obstacle } from "./state";
import { saySeen } from "./strings";

/** Its elements, which the list takes over. */
export interface DocumentPlace {
  readonly title: HTMLElement;
  readonly told: HTMLElement;
  /** Deletes all documents, once they are read. */
  readonly all: HTMLButtonElement;
  readonly token: HTMLDetailsElement;
}

let made: DocumentPlace | undefined;

export const documentPlace = (): DocumentPlace => (made ??= make());

function make(): DocumentPlace {
  const { title, why, removeAll, token } = saySeen().documentList;
  const own = {
    title: el("h2", { tabindex: "-1" }, title),
    told: el("p", { role: "status" }),
    all: el("button", { type: "button", "data-sends": true, disabled: true }, removeAll),
    token: el("details", { id: "token" }, el("summary", {}, token)),
  };
  const place = byId("documents");
  place.setAttribute("aria-label", title);
  put(place, own.title, el("p", {}, why), own.told, own.all, own.token);
  place.hidden = false;
  return own;
}

/** Say when the list is read. A browser without a token has no documents. */
export function showDocumentPlace({ state, memory }: Session): void {
  const { unread, later, none } = saySeen().documentList;
  const { told, all } = documentPlace();
  const isOpen = obstacle(state) === undefined;
  const hasNone = isOpen && memory.get("token") === undefined;
  const whenOpen = hasNone ? none : later;
  const text = isOpen ? whenOpen : unread;
  if (told.textContent !== text) told.textContent = text;
  all.hidden = hasNone;
}
