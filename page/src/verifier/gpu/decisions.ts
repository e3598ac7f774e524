/** The decisions by which something about a device is left unchecked, and which of them a verification made use of. */

import type { Unchecked } from "../checks";
import type { AttestError } from "../errors";
import { reasonsOf, tolerated } from "../procedure";

export class Decisions {
  private readonly used = new Set<Unchecked>();

  constructor(private readonly all: readonly Unchecked[]) {}

  /**
   * Return the first of these names that is left unchecked, and make use of its decisions; throw the failure unless it
   * only says that something is missing or stale.
   */
  tolerate(failure: AttestError, ...names: readonly Unchecked["check"][]): Unchecked["check"] {
    const decisions = tolerated(failure, this.all, ...names);
    for (const decision of decisions) this.used.add(decision);
    const [first] = decisions;
    if (!first) throw failure;
    return first.check;
  }

  /** Why something was left unchecked. */
  reasons(): string {
    return reasonsOf([...this.used]);
  }

  /** Why a step lacks what it needs. */
  lacking(): string {
    return this.used.size ? this.reasons() : "not found";
  }
}
