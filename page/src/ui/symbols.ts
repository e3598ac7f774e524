/** A sign for each state, that is never another state's. */

import type { Phase, State } from "./state";

const SYMBOLS: Readonly<Record<Phase, string>> = {
  checking: "…",
  unknown: "?",
  trusted: "✓",
  unreachable: "↻",
  stopped: "■",
  refused: "✕",
};

/** A simulated machine never has the sign of a genuine one. */
export const symbolOf = ({ phase, simulated }: State): string =>
  simulated && (phase === "trusted" || phase === "unknown") ? "≈" : SYMBOLS[phase];
