/** Questions and documents. Every message says to which key it went. */

import type { ChannelAnswer, ChannelRequest } from "../channel/index";
import { AnswerView } from "./answers";
import { byId, el, short } from "./dom";
import { type Told, eventsOf, textOf } from "./events";
import { kindOf } from "./problem_kinds";
import { type Problem, problemOf } from "./problems";
import type { Session } from "./session";
import { obstacle } from "./state";
import { say } from "./strings";
import { problemWords } from "./words";

type Data = Told["data"];
/** How often a document is tried again while the service gives no answer, with doubled pauses. */
const TRIES = 8;
const FIRST_PAUSE_SECONDS = 1;
const LONGEST_PAUSE_SECONDS = 30;

export function showComposer({ state }: Session): void {
  const closed = obstacle(state) !== undefined;
  for (const id of ["question", "ask", "file"]) byId(id).toggleAttribute("disabled", closed);
}

export function startChat(session: Session): void {
  const question = byId("question", HTMLTextAreaElement);
  const file = byId("file", HTMLInputElement);
  const drop = byId("drop");
  byId("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = question.value.trim();
    if (!text || obstacle(session.state)) return;
    question.value = "";
    void ask(session, text);
  });
  question.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    byId("composer", HTMLFormElement).requestSubmit();
  });
  file.addEventListener("change", () => {
    void uploadAll(session, [...(file.files ?? [])]).finally(() => (file.value = ""));
  });
  // A file that is dropped beside the field would be opened by the browser, in the place of this page.
  for (const name of ["dragover", "drop"] as const) addEventListener(name, (event) => event.preventDefault());
  drop.addEventListener("dragover", () => drop.classList.toggle("over", !obstacle(session.state)));
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    drop.classList.remove("over");
    if (!obstacle(session.state)) void uploadAll(session, [...(event.dataTransfer?.files ?? [])]);
  });
}

/** Members of a refusal, which is an event's or a whole answer's (RFC 9457). */
function refusalOf(data: Data, status: number): Problem {
  const problem = (typeof data.problem === "object" && data.problem ? data.problem : data) as Data;
  const code = textOf(problem, "code") || "refused";
  const message = textOf(problem, "detail") || textOf(problem, "title");
  const isOver = kindOf(code) === "ended";
  return { code, message, passing: !isOver && [429, 503].includes(Number(textOf(problem, "status") || status)) };
}

/** What is shown of each event, by its name. */
type Shows = Readonly<Record<string, (data: Data) => void>>;

/**
 * Follow an answer to its end, and return why it is none; one that ends before `last` was cut, and counts as refused.
 */
async function follow({ status, content }: ChannelAnswer, last: string, shows: Shows): Promise<Problem | undefined> {
  if (status !== 200) {
    let text = "";
    for await (const piece of content) text += new TextDecoder().decode(piece);
    return refusalOf(JSON.parse(text) as Data, status);
  }
  for await (const { event, data } of eventsOf(content)) {
    if (event === "refused") return refusalOf(data, status);
    shows[event]?.(data);
    if (event === last) return undefined;
  }
  return { code: "channel-truncated", message: say().cut };
}

interface Delivery {
  readonly request: ChannelRequest;
  /** The machine is checked before. */
  readonly anew: boolean;
  /** The event in which a whole answer ends. */
  readonly last: string;
  readonly shows: Shows;
  readonly key: HTMLElement;
}

/** Send, say to which key it went, follow the answer, and return why there is none. */
async function deliver(session: Session, { request, anew, last, shows, key }: Delivery): Promise<Problem | undefined> {
  try {
    const answer = await session.send(request, anew);
    key.textContent = say().sealedKey(answer.key.id, short(answer.key.digest));
    const problem = await follow(answer, last, shows);
    if (problem && kindOf(problem.code) === "ended") void session.check();
    return problem;
  } catch (error) {
    return problemOf(error);
  }
}

function showEnd(place: HTMLElement, problem: Problem | undefined, done: string): void {
  place.textContent = done;
  place.classList.toggle("refused", problem !== undefined);
  if (!problem) return;
  const { refusedByService, details } = say();
  const [what, now] = problemWords(problem);
  const ours = kindOf(problem.code) === "other" ? refusedByService(problem.message) : `${what} ${now}`;
  place.replaceChildren(
    ours,
    el("details", {}, el("summary", {}, details), el("small", {}, `${problem.message} [${problem.code}]`)),
  );
}

const post = (path: string, type: string, content: Blob): ChannelRequest => ({
  method: "POST",
  path,
  fields: [["content-type", type]],
  content,
});

async function ask(session: Session, question: string): Promise<void> {
  const key = el("small");
  const status = el("div", { class: "end" }, say().asking);
  const view = new AnswerView();
  byId("log").append(el("div", {}, el("p", { class: "asked", dir: "auto" }, question), ...view.parts, status, key));
  const request = post("/v1/questions", "application/json", new Blob([JSON.stringify({ question })]));
  const shows: Shows = {
    passage: (data) => view.passage(data),
    text: (data) => view.piece(data),
    answer: (data) => view.answer(data),
  };
  showEnd(status, await deliver(session, { request, anew: false, last: "answer", shows, key }), "");
}

async function uploadAll(session: Session, files: readonly File[]): Promise<void> {
  for (const file of files) await upload(session, file);
}

async function upload(session: Session, file: File): Promise<void> {
  const { name, type } = file;
  const words = say();
  const status = el("span", {}, words.uploading);
  const key = el("small");
  const bar = el("progress", { "aria-label": words.progress(name) });
  byId("uploads").append(el("li", {}, `${name}: `, status, " ", bar, key));
  const progress = (data: Data): void => {
    // Embedding takes nearly all of the time, long after the last page was read: it has the bar for itself.
    const isEmbedding = textOf(data, "of_passages") !== "";
    const done = textOf(data, isEmbedding ? "passages" : "pages");
    const all = textOf(data, isEmbedding ? "of_passages" : "of");
    if (all) {
      bar.max = Number(all);
      bar.value = Number(done);
    }
    status.textContent = isEmbedding ? words.passageOf(done, all) : words.pageOf(done, all);
  };
  const known = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+$/.test(type) ? type : "application/octet-stream";
  const request = post(`/v1/documents?name=${encodeURIComponent(name)}`, known, file);
  const delivery: Delivery = { request, anew: true, last: "stored", shows: { progress }, key };
  const problem = await persisting(
    () => deliver(session, delivery),
    (seconds) => (status.textContent = words.waiting(seconds)),
  );
  showEnd(status, problem, problem ? "" : words.stored);
  bar.remove();
}

/** Try again while there is no answer, which says nothing about the machine; the document is kept meanwhile. */
async function persisting(
  attempt: () => Promise<Problem | undefined>,
  waiting: (seconds: number) => void,
): Promise<Problem | undefined> {
  for (let tries = 0; ; tries++) {
    const problem = await attempt();
    if (!problem?.passing || tries === TRIES) return problem;
    const seconds = Math.min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** tries);
    waiting(seconds);
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
  }
}
