/** The page, at its edge: what is not pure is taken from the browser here, and nowhere else. */

import { byId, el, put } from "./dom";
import { showIncomplete } from "./incomplete";
import { label, storeOf } from "./labels";
import type { LaterParts } from "./later_parts";
import { Memory } from "./memory";
import { problemOf } from "./problems";
import { type Place, Session } from "./session";
import { BEGINNING, type Phase, type State } from "./state";
import { showFound, showStatus, showTime } from "./status";
import { type First, languageOf, speakFirst, speakSeen } from "./strings";
import type { View } from "./view";
import { part } from "../verifier/parts";

const CHECK_MS = 60_000;
const POLL_MS = 10_000;
/** A service that is slower than this does not hold up the rest of the page. */
const PATIENCE_MS = 2_000;
const TIME_MS = 10_000;

/** What is fetched after the first verdict. */
type Rest = typeof import("./view");

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

let shown: Phase = "checking";

/** Show the verdict, and go to it once nothing may be sent any more. */
function showVerdict(state: State, whyRefused = ""): void {
  const { phase } = state;
  // A refusal is shown at once, and its sentence as soon as there are words for it.
  showStatus(state, Date.now(), phase === "refused" ? whyRefused : "");
  showFound(state);
  if (shown !== phase && (phase === "refused" || phase === "stopped")) {
    byId("verdict").focus({ preventScroll: true });
    byId("status").scrollIntoView();
  }
  shown = phase;
}

/** Say that the page is not whole yet. */
const showLoading = ({ loading }: First): void =>
  put(byId("decide"), el("p", { id: "loading", class: "quiet" }, loading));

/** Fetch what is seen beside the verdict. A page that stays without it says so. */
async function restIn(language: string): Promise<Rest | undefined> {
  try {
    const [rest] = await Promise.all([part(import("./view")), speakSeen(language)]);
    return rest;
  } catch {
    showIncomplete();
    return undefined;
  } finally {
    document.querySelector("#loading")?.remove();
  }
}

/** Fetch what judges while the service is asked. The check shows a failure. */
function fetchJudges(memory: Memory): void {
  import("../policy/draft").catch(() => undefined);
  if (memory.get("policy") !== undefined) import("../channel/record").catch(() => undefined);
}

async function begin(language: string, first: First): Promise<void> {
  const place = await placeOf();
  const { intro, own, theirs } = first;
  byId("intro").textContent = intro(place.service);
  byId("server").textContent = place.own ? own : theirs(place.service);
  const memory = new Memory(place.service, storeOf(), (bytes) => crypto.getRandomValues(bytes));
  let view: View | undefined;
  let isAsked = false;
  const complete = (): void => {
    if (isAsked) return;
    isAsked = true;
    showLoading(first);
    // After the verdict is painted.
    setTimeout(async () => {
      const rest = await restIn(language);
      view = rest && new rest.View(session, new rest.LaterParts(language, show));
      view?.start();
      show();
    });
  };
  const show = (): void => {
    showVerdict(session.state, view?.whyRefused);
    view?.show();
    if (session.state.phase !== "checking") complete();
  };
  const session: Session = new Session(place, memory, {
    fetch: (...given) => fetch(...given),
    now: () => Date.now(),
    later: (run, ms) => void setTimeout(run, ms),
    show,
  });
  byId("again").addEventListener("click", () => void session.check());
  fetchJudges(memory);
  void session.check();
  setTimeout(complete, PATIENCE_MS);
  setInterval(() => void session.poll(), POLL_MS);
  setInterval(() => void session.check(), CHECK_MS);
  setInterval(() => showTime(session.state, Date.now()), TIME_MS);
  addEventListener("online", () => void session.check());
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && Date.now() - (session.state.at ?? 0) > CHECK_MS) void session.check();
  });
}

/** Say why the page cannot begin. */
async function stop(language: string, first: First, error: unknown): Promise<void> {
  const state: State = { ...BEGINNING, busy: false, phase: "refused", problem: problemOf(error) };
  showVerdict(state);
  showLoading(first);
  const rest = await restIn(language);
  if (!rest) return;
  const show = (): void => {
    showVerdict(state, rest.whyRefused(state, parts));
    rest.showProblem(state, parts, false);
  };
  const parts: LaterParts = new rest.LaterParts(language, show);
  show();
}

const language = languageOf(navigator.languages);
speakFirst(language)
  .then(async (first) => {
    label(language, first.page);
    showVerdict(BEGINNING);
    await begin(language, first).catch(async (error: unknown) => stop(language, first, error));
  })
  .catch(() => undefined); // The document says that nothing was checked.
