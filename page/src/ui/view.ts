/** Everything that is shown once the page has asked the service for its first proof. Fetched meanwhile. */

import { showComposer, startChat } from "./chat";
import { showChecks } from "./checks";
import { byId, download } from "./dom";
import { startDropping } from "./dropping";
import { optionsOf } from "../policy/kept";
import { showPolicy, startPolicy } from "./policy_view";
import type { Session } from "./session";
import type { Phase, State } from "./state";
import { showFacts, showFailure, showProved, showStatus, showTime, showWarnings } from "./status";
import { tell } from "./taking";
import { showTrust } from "./trust";
import { part } from "../verifier/parts";

export { speak } from "./strings";

const TIME_MS = 10_000;
let shown: Phase | undefined;

function commandOf({ nonce, memory, state }: Session): string {
  const kept = memory.get("policy");
  const options = kept === undefined ? [] : optionsOf(kept);
  const moment = `--at ${state.result?.at ?? ""}`;
  const simulated = state.simulated ? ["--allow-simulated"] : [];
  return ["attest appraise evidence.json", ...options, `--nonce ${nonce}`, moment, "--offline", ...simulated].join(" ");
}

/** Go to what changed: to the field once something may be sent, and to the verdict once nothing may be any more. */
function follow(before: Phase | undefined, now: Phase): void {
  if (before === undefined || before === now) return;
  if (now === "trusted" && before === "checking") byId("question").focus({ preventScroll: true });
  if (now !== "refused" && now !== "stopped") return;
  tell("");
  byId("verdict").focus({ preventScroll: true });
  byId("status").scrollIntoView();
}

/** Show what is known; what a running check has not found again yet stays as it is. */
export function show(session: Session): void {
  const { state } = session;
  showStatus(state, Date.now());
  showFailure(state, session.hasSent);
  showComposer(session);
  void part(import("./documents")).then(
    ({ showDocuments }) => showDocuments(session),
    () => undefined, // A chosen file shows the failure.
  );
  if (state.busy && state.phase !== "checking") return;
  showFacts(state);
  showChecks(state);
  showWarnings(state);
  showProved(state);
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

/** Show a page that cannot begin. */
export function showEnd(state: State): void {
  showStatus(state, Date.now());
  showFailure(state, false);
}

export function start(session: Session): void {
  byId("again").addEventListener("click", () => void session.check());
  byId("save").addEventListener("click", () => download("evidence.json", JSON.stringify(session.evidence)));
  startChat(session);
  startDropping(session);
  startPolicy(session);
  setInterval(() => showTime(session.state, Date.now()), TIME_MS);
  show(session);
}
