/** The page, at its edge: what is not pure is taken from the browser here, and nowhere else. */

import { showComposer, startChat } from "./chat";
import { byId, download } from "./dom";
import { Memory, type Store } from "./memory";
import { type Place, Session, problemLine } from "./session";
import { filesOf } from "../policy/kept";
import { readPolicy } from "./judge";
import { showChecks, showStatus, showTime, showWarnings } from "./status";
import { showTrust, startTrust } from "./trust";

const CHECK_MS = 60_000;

/** Where the service is, by whoever serves the page. */
async function placeOf(): Promise<Place> {
  const answer = await fetch("page.json", { cache: "no-store", credentials: "omit", redirect: "error" });
  const { service, name, own } = (await answer.json()) as Partial<Record<string, unknown>>;
  return {
    service: typeof service === "string" ? new URL(service).origin : location.origin,
    name: typeof name === "string" ? name : undefined,
    own: own === true,
  };
}

function storeOf(): Store | undefined {
  try {
    return localStorage;
  } catch {
    return undefined;
  }
}

function commandOf({ nonce, memory, state }: Session): string {
  const kept = memory.get("policy");
  const files = kept === undefined ? [] : filesOf(kept);
  const options = files.map(({ option, name }) => `--${option} ${name}`);
  const moment = `--at ${state.result?.at ?? ""}`;
  const simulated = state.simulated ? ["--allow-simulated"] : [];
  return ["attest appraise evidence.json", ...options, `--nonce ${nonce}`, moment, "--offline", ...simulated].join(" ");
}

/** Where the page came from, and what that means. */
function originText({ own, service }: Place): string {
  if (own) return "The page came from your own computer, by attest page: the service has no say in what it shows.";
  const doubt = "The page came from the service itself, which could send you another one that only claims to check.";
  return `${doubt} For certainty run attest page ${service} on your own computer.`;
}

function begin(place: Place): void {
  const memory = new Memory(place.service, storeOf(), (bytes) => crypto.getRandomValues(bytes));
  const session: Session = new Session(place, memory, {
    fetch: (...given) => fetch(...given),
    now: () => Date.now(),
    show,
  });
  function show(): void {
    const { state } = session;
    showStatus(state, Date.now());
    showComposer(session);
    if (state.busy) return;
    showChecks(state);
    showWarnings(state);
    showTrust(session);
    byId("command").textContent = commandOf(session);
    byId("save").toggleAttribute("disabled", !session.evidence);
  }
  byId("service").textContent = place.service;
  byId("server").textContent = originText(place);
  byId("again").addEventListener("click", () => void session.check());
  byId("save").addEventListener("click", () => download("evidence.json", JSON.stringify(session.evidence)));
  startChat(session);
  startTrust(session, readPolicy);
  setInterval(() => showTime(session.state, Date.now()), 10_000);
  setInterval(() => void session.check(), CHECK_MS);
  addEventListener("online", () => void session.check());
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && Date.now() - (session.state.at ?? 0) > CHECK_MS) void session.check();
  });
  void session.check();
}

placeOf()
  .then(begin)
  .catch((error: unknown) => {
    byId("status").dataset.phase = "stopped";
    byId("word").textContent = "Stopped";
    byId("why").textContent = `${problemLine(error)}. Nothing is sent.`;
  });
