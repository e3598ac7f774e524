/** The page of a service: what is seen at once, and the parts that are fetched when a person turns to them. */

import { optionsOf } from "../policy/kept";
import { noteHistory } from "./alone/history";
import { showChain } from "./chain";
import { showComposer, startChat } from "./chat";
import { showDecision } from "./decide";
import { limitsOf, limitsText } from "./document_limits";
import { showDocumentPlace } from "./document_place";
import { byId, download, el, put } from "./dom";
import { startDropping } from "./dropping";
import { showIncomplete } from "./incomplete";
import { storeOf } from "./labels";
import type { LaterParts, PartName } from "./later_parts";
import { showPolicy, startPolicy } from "./policy_view";
import type { Session } from "./session";
import { type Phase, type State, obstacle } from "./state";
import { tell } from "./status";
import { sayFirst } from "./strings";
import { Turning, watchSight } from "./turning";

export { LaterParts } from "./later_parts";

export class View {
  private shown: Phase = "checking";
  private isFirst = true;
  private areDocumentsInSight = false;
  private readonly turning: Turning;

  constructor(
    private readonly session: Session,
    private readonly parts: LaterParts,
  ) {
    this.turning = new Turning(parts, (name) => this.draw(name));
  }

  get whyRefused(): string {
    return whyRefused(this.session.state, this.parts);
  }

  start(): void {
    const { session, parts } = this;
    startChat(session, parts);
    startDropping(session, parts);
    startPolicy(session, async (run) => {
      const policy = await parts.use("policy");
      if (policy) await run(policy);
    });
    byId("save").addEventListener("click", () => download("evidence.json", JSON.stringify(session.evidence)));
    this.turning.start();
    watchSight(byId("documents"), (isInSight) => {
      this.areDocumentsInSight = isInSight;
      this.fetchDocuments();
    });
  }

  /** Show what is known; what a running check has not found again yet stays as it is. */
  show(): void {
    const { session, parts } = this;
    const { state } = session;
    showComposer(session, parts.isIncomplete);
    byId("limits").textContent = limitsText(limitsOf(state.limits));
    showProblem(state, parts, session.hasSent);
    this.showDocuments();
    if (state.busy && state.phase !== "checking") return;
    parts.there.checks?.showChecks(state);
    if (state.phase === "checking" && this.isFirst) return;
    if (!parts.isIncomplete) showDecision(session, () => void this.decide());
    parts.there.decision?.showRows(session);
    showPolicy(session);
    byId("command").textContent = commandOf(session);
    byId("save").toggleAttribute("disabled", !session.evidence);
    this.showBeside();
    this.follow(state.phase);
  }

  private showDocuments(): void {
    const { documents } = this.parts.there;
    if (documents) documents.showDocuments(this.session);
    else showDocumentPlace(this.session);
    this.fetchDocuments();
  }

  /** Fetch what reads the list of documents once a person has decided, or has come to its place. */
  private fetchDocuments(): void {
    const { there } = this.parts;
    const { state, memory } = this.session;
    if (obstacle(state)) return;
    const hasDecided = there.decision ?? there.policy;
    // What says why there is no answer, too: without a network it would come too late.
    if (hasDecided) this.parts.ahead("failure", "question");
    if (hasDecided ?? (this.areDocumentsInSight && memory.get("token") !== undefined)) this.parts.ahead("documents");
  }

  /** What is drawn without an act of a person; without its code, everything else is as it is. */
  private showBeside(): void {
    const { session } = this;
    const { state, memory } = session;
    showChain(byId("chain"), state);
    if (state.simulated) void import("./trial").then(({ offerTrial }) => offerTrial(session)).catch(() => undefined);
    noteHistory(memory, state);
  }

  private async decide(): Promise<void> {
    put(byId("decide"), el("p", { class: "quiet loading" }, sayFirst().loading));
    (await this.parts.use("decision"))?.confirmAll(this.session);
  }

  /** Draw what a person has opened. */
  private draw(name: PartName): void {
    const { session, parts } = this;
    if (name === "checks") parts.there.checks?.showChecks(session.state);
    if (name === "decision") parts.there.decision?.showRows(session);
    if (name === "history") {
      void parts.there.history?.startHistory(storeOf(), document.documentElement.lang, session.place.service);
    }
  }

  /** Go to the field once something may be sent; at first only where the person has not gone elsewhere. */
  private follow(now: Phase): void {
    const isElsewhere = this.isFirst && document.activeElement !== document.body;
    const before = this.shown;
    this.isFirst = false;
    this.shown = now;
    if (before === now) return;
    if (now === "trusted" && before === "checking" && !isElsewhere) this.turning.focus(byId("question"));
    if (now === "refused" || now === "stopped") tell("");
  }
}

/** Why a machine or a service is refused, once the words for that were fetched. */
export const whyRefused = (state: State, { there }: LaterParts): string => there.failure?.whyRefused(state) ?? "";

/** Show that the page is not whole, or what went wrong, whose words are fetched then. */
export function showProblem(state: State, parts: LaterParts, hasSent: boolean): void {
  const { failure } = parts.there;
  if (parts.isIncomplete) showIncomplete();
  else if (failure) failure.showFailure(state, hasSent);
  else if (state.phase === "refused") void parts.use("failure");
  else if (state.problem) parts.ahead("failure"); // The state is said without it.
}

function commandOf({ nonce, memory, state }: Session): string {
  const kept = memory.get("policy");
  const options = kept === undefined ? [] : optionsOf(kept);
  const moment = `--at ${state.result?.at ?? ""}`;
  const simulated = state.simulated ? ["--allow-simulated"] : [];
  return ["attest appraise evidence.json", ...options, `--nonce ${nonce}`, moment, "--offline", ...simulated].join(" ");
}
