/** A confirmation before an action that cannot be undone. */

import { el, put } from "./dom";

export interface Consent {
  readonly title: string;
  /** The effect of the action. */
  readonly effect: string;
  readonly yes: string;
  readonly no: string;
  readonly done: () => void;
}

/** Ask, and move the focus to the question. Without consent the focus returns. */
export function askConsent(place: HTMLElement, { title, effect, yes, no, done }: Consent): void {
  const before = document.activeElement;
  const head = el("h3", { tabindex: "-1", dir: "auto" }, title);
  const end = (agreed: boolean): void => {
    place.replaceChildren();
    if (agreed) done();
    else if (before instanceof HTMLElement) before.focus();
  };
  const leave = (event: Event): void => {
    if (event instanceof KeyboardEvent && event.key === "Escape") end(false);
  };
  put(
    place,
    el(
      "div",
      { class: "consent", role: "group", "aria-label": title, keydown: leave },
      head,
      el("p", {}, effect),
      el("button", { type: "button", class: "danger", click: () => end(true) }, yes),
      el("button", { type: "button", click: () => end(false) }, no),
    ),
  );
  head.focus();
  place.scrollIntoView({ block: "nearest" });
}
