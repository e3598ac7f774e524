/** Everything that is shown after the first verdict, and fetched right after it. */

import { showComposer, startChat } from "./chat";
import { showChecks } from "./checks";
import { byId, download } from "./dom";
import { startDropping } from "./dropping";
import { showFailure } from "./failure";
import { optionsOf } from "../policy/kept";
import { showPolicy, startPolicy } from "./policy_view";
import type { Session } from "./session";
import type { Phase } from "./state";
import { tell } from "./taking";
import { showTrust } from "./trust";
import { part } from "../verifier/parts";

export { showFailure } from "./failure";
export { whyRefused } from "./words";

let shown: Phase = "checking";
let isFirst = true;

function commandOf({ nonce, memory, state }: Session): string {
  const kept = memory.get("policy");
  const options = kept === undefined ? [] : optionsOf(kept);
  const moment = `--at ${state.result?.at ?? ""}`;
  const simulated = state.simulated ? ["--allow-simulated"] : [];
  return ["attest appraise evidence.json", ...options, `--nonce ${nonce}`, moment, "--offline", ...simulated].join(" ");
}

/** Go to the field once something may be sent; at first only where the person has not gone elsewhere. */
function follow(before: Phase, now: Phase): void {
  const isElsewhere = isFirst && document.activeElement !== document.body;
  isFirst = false;
  if (before === now) return;
  if (now === "trusted" && before === "checking" && !isElsewhere) byId("question").focus({ preventScroll: true });
  if (now === "refused" || now === "stopped") tell("");
}

/** Show what is known; what a running check has not found again yet stays as it is. */
export function show(session: Session): void {
  const { state } = session;
  showFailure(state, session.hasSent);
  showComposer(session);
  void part(import("./documents")).then(
    ({ showDocuments }) => showDocuments(session),
    () => undefined, // A chosen file shows the failure.
  );
  if (state.busy && state.phase !== "checking") return;
  showChecks(state);
  showTrust(session);
  showPolicy(session);
  byId("command").textContent = commandOf(session);
  byId("save").toggleAttribute("disabled", !session.evidence);
  if (state.simulated) {
    void part(import("./trial")).then(
      ({ offerTrial }) => offerTrial(session),
      () => undefined,
    );
  }
  // Without it there is no history, and everything else is as it is.
  void import("./alone/keeping").then(({ keep }) => keep(session)).catch(() => undefined);
  follow(shown, state.phase);
  shown = state.phase;
}

export function start(session: Session): void {
  byId("save").addEventListener("click", () => download("evidence.json", JSON.stringify(session.evidence)));
  startChat(session);
  startDropping(session);
  startPolicy(session);
  import("../channel/sending").catch(() => undefined); // What is sent shows the failure.
}
