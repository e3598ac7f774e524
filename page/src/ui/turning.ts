/** The acts by which a person turns to a part of the page, so that it is there by the time of the click. */

import { el } from "./dom";
import { type LaterParts, type PartName, isPartName } from "./later_parts";
import { sayFirst } from "./strings";

/** The acts of a person, at an element or anywhere. A page scrolls and moves the focus by itself, too. */
const ACTS = ["pointermove", "pointerdown", "keydown", "wheel", "touchmove", "dragenter"];

export class Turning {
  private isOurs = false;

  /** @param drawn draws a part that a person has opened */
  constructor(
    private readonly parts: LaterParts,
    private readonly drawn: (name: PartName) => void,
  ) {}

  /** Fetch the part that an element names when a person turns to it. */
  start(): void {
    for (const place of document.querySelectorAll<HTMLElement>("[data-part]")) {
      const { part } = place.dataset;
      if (isPartName(part)) this.listen(place, part);
    }
  }

  private listen(place: HTMLElement, name: PartName): void {
    const turns = (): void => {
      if (!this.isOurs) this.parts.ahead(name);
    };
    for (const act of [...ACTS, "focusin"]) place.addEventListener(act, turns, { passive: true });
    // Such an event is told to the element alone, and to those around it before.
    place.addEventListener("toggle", ({ target }) => void this.opened(target, name), { capture: true });
  }

  private async opened(fold: EventTarget | null, name: PartName): Promise<void> {
    if (!(fold instanceof HTMLDetailsElement) || !fold.open) return;
    const loading = el("p", { class: "quiet loading" }, sayFirst().loading);
    if (!this.parts.there[name]) fold.append(loading);
    const found = await this.parts.use(name);
    loading.remove();
    if (found) this.drawn(name);
  }

  /** Move the focus, to which nobody has turned yet. */
  focus(place: HTMLElement): void {
    this.isOurs = true;
    place.focus({ preventScroll: true });
    this.isOurs = false;
  }
}

/** Tell when an element is in sight, once a person has done anything: what a tall window shows is no act. */
export function watchSight(place: HTMLElement, seen: (isInSight: boolean) => void): void {
  const first = new AbortController();
  const watch = (): void => {
    first.abort();
    const observer = new IntersectionObserver((found) => seen(found.some((one) => one.isIntersecting)));
    observer.observe(place);
  };
  for (const act of ACTS) addEventListener(act, watch, { passive: true, signal: first.signal });
}
