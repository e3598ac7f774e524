/** What is judged, and by which policy: a service, or files. */

import type { Memory } from "./memory";
import type { State } from "./state";

export interface Subject {
  readonly state: State;
  readonly memory: Memory;
  /** Keep a policy, or none, and judge by it. */
  accept(policy: string | undefined): Promise<void>;
}
