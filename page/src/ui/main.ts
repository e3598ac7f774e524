/** The page, at its edge: what is not pure is taken from the browser here, and nowhere else. */

import { byId } from "./dom";
import { label, storeOf } from "./labels";
import { Memory } from "./memory";
import { problemOf } from "./problems";
import { type Place, Session } from "./session";
import { BEGINNING } from "./state";
import { languageOf, shellOf, speak } from "./strings";
import type { Shell } from "./strings/en/shell";
import { part } from "../verifier/parts";

const CHECK_MS = 60_000;
const POLL_MS = 10_000;

type View = typeof import("./view");

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

/** Show the page before anything is known. */
function begins(language: string, { page, checking: [word = "", why = ""] }: Shell): void {
  byId("symbol").textContent = "…";
  byId("word").textContent = word;
  byId("why").textContent = why;
  label(language, page);
}

/** Fetch what shows results, and its words. */
async function viewIn(language: string): Promise<View> {
  const [view] = await Promise.all([part(import("./view")), speak(language)]);
  return view;
}

async function begin(language: string, shell: Shell): Promise<void> {
  const place = await placeOf();
  const { intro, own, theirs } = shell;
  byId("intro").textContent = intro(place.service);
  byId("server").textContent = place.own ? own : theirs(place.service);
  const memory = new Memory(place.service, storeOf(), (bytes) => crypto.getRandomValues(bytes));
  const loaded: { view?: View } = {};
  const session: Session = new Session(place, memory, {
    fetch: (...given) => fetch(...given),
    now: () => Date.now(),
    later: (run, ms) => void setTimeout(run, ms),
    show: () => loaded.view?.show(session),
  });
  void session.check();
  const view = await viewIn(language);
  loaded.view = view;
  view.start(session);
  setInterval(() => void session.poll(), POLL_MS);
  setInterval(() => void session.check(), CHECK_MS);
  addEventListener("online", () => void session.check());
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && Date.now() - (session.state.at ?? 0) > CHECK_MS) void session.check();
  });
}

/** Say why the page cannot begin; without the words for it, that it cannot. */
async function stop(language: string, { incomplete }: Shell, error: unknown): Promise<void> {
  try {
    const view = await viewIn(language);
    view.showEnd({ ...BEGINNING, busy: false, phase: "refused", problem: problemOf(error) });
  } catch {
    byId("status").dataset.phase = "refused";
    byId("symbol").textContent = "✕";
    byId("word").textContent = incomplete;
    byId("why").textContent = "";
  }
}

const language = languageOf(navigator.languages);
shellOf(language)
  .then(async (shell) => {
    begins(language, shell);
    await begin(language, shell).catch(async (error: unknown) => stop(language, shell, error));
  })
  .catch(() => undefined); // The document says that nothing was checked.
