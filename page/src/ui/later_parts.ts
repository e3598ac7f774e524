/** The parts of the page that are fetched when a person turns to them, each with its words and its style. */

import { part } from "../verifier/parts";
import { speak } from "./strings";

const PARTS = {
  checks: async () => import("./checks"),
  decision: async () => import("./trust"),
  documents: async () => withSending(import("./documents")),
  failure: async () => import("./failure"),
  history: async () => import("./alone/history_view"),
  policy: async () => import("./policy_actions"),
  question: async () => withSending(import("./question")),
};
export type PartName = keyof typeof PARTS;
type Parts = { readonly [K in PartName]: Awaited<ReturnType<(typeof PARTS)[K]>> };

export const isPartName = (name: string | undefined): name is PartName => Object.hasOwn(PARTS, name ?? "");

async function withSending<T>(fetched: Promise<T>): Promise<T> {
  const [found] = await Promise.all([fetched, import("../channel/sending")]);
  return found;
}

export class LaterParts {
  /** A part that is needed is not there: nothing may be accepted or sent. */
  isIncomplete = false;
  /** Everything that was fetched. */
  readonly there: Partial<Parts> = {};
  private underWay = 0;
  private readonly fetching: Partial<Record<PartName, Promise<void> | undefined>> = {};

  /** @param changed is told that a part came, or that one is missing */
  constructor(
    private readonly language: string,
    private readonly changed: () => void,
  ) {}

  /** Fetch a part before it is needed. Its use shows the failure. */
  ahead(...names: readonly PartName[]): void {
    for (const name of names) this.fetched(name).catch(() => undefined);
  }

  /** The part, or undefined: then the page says that it is not whole. */
  async use<K extends PartName>(name: K): Promise<Parts[K] | undefined> {
    try {
      await this.fetched(name);
    } catch {
      this.isIncomplete = true;
      this.changed();
    }
    return this.isIncomplete ? undefined : this.there[name];
  }

  private fetched(name: PartName): Promise<void> {
    return (this.fetching[name] ??= this.fetch(name));
  }

  private async fetch(name: PartName): Promise<void> {
    const { classList } = document.documentElement;
    this.underWay += 1;
    classList.add("fetching");
    try {
      const fetched = Promise.all([PARTS[name](), import("./later_style"), speak(this.language)]);
      const [found, { adoptLaterStyle }] = await part(fetched);
      adoptLaterStyle();
      Object.assign(this.there, { [name]: found });
    } catch (error) {
      this.fetching[name] = undefined;
      throw error;
    } finally {
      this.underWay -= 1;
      if (!this.underWay) classList.remove("fetching");
    }
    this.changed();
  }
}
