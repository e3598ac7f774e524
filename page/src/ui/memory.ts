/**
 * What the page keeps for a service, in this browser alone: the policy and where it came from, what was accepted, the
 * service's name, and the person's token.
 */

import { base64urlText } from "../verifier/bytes";

type Kept = "policy" | "source" | "accepted" | "refused" | "history" | "name" | "token";
/** 32 bytes in base64url. */
export const TOKEN = /^[\w-]{43}$/;

/** What is needed of localStorage. */
export type Store = Pick<Storage, "getItem" | "setItem" | "removeItem">;

export class Memory {
  private readonly own = new Map<string, string | undefined>();

  /** @param store undefined, or one that refuses: everything is forgotten with the page */
  constructor(
    private readonly service: string,
    private readonly store: Store | undefined,
    private readonly random: (bytes: Uint8Array<ArrayBuffer>) => Uint8Array<ArrayBuffer>,
  ) {}

  /** What another tab changed counts here, too. */
  get(kept: Kept): string | undefined {
    const name = `attest ${kept} ${this.service}`;
    if (this.own.has(name)) return this.own.get(name);
    try {
      return this.store?.getItem(name) ?? undefined;
    } catch {
      return undefined;
    }
  }

  set(kept: Kept, value: string | undefined): void {
    const name = `attest ${kept} ${this.service}`;
    this.own.delete(name);
    try {
      if (!this.store) this.own.set(name, value);
      else if (value === undefined) this.store.removeItem(name);
      else this.store.setItem(name, value);
    } catch {
      // It is kept as long as the page is open.
      this.own.set(name, value);
    }
  }

  /** 32 random bytes that the person's documents hang on; drawn once, and sent to nobody but the machine. */
  token(): string {
    const found = this.get("token");
    if (found && TOKEN.test(found)) return found;
    const drawn = base64urlText(this.random(new Uint8Array(32)));
    this.set("token", drawn);
    return drawn;
  }
}
