/** Questions and documents. Every message says to which key it went. */

import type { ChannelAnswer, ChannelRequest } from "../channel/index";
import { byId, el, put, short } from "./dom";
import { type Told, eventsOf, textOf } from "./events";
import { type Session, problemLine } from "./session";
import { obstacle } from "./state";

type Data = Told["data"];

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
function problemText(data: Data): string {
  const problem = (typeof data.problem === "object" && data.problem ? data.problem : data) as Data;
  const text = textOf(problem, "detail") || textOf(problem, "title") || "Refused";
  return `${text} [${textOf(problem, "code") || "refused"}]`;
}

/** What is shown of each event, by its name; `last` is the one in which a whole answer ends. */
type Shows = Readonly<Record<string, (data: Data) => void>>;

/**
 * Follow an answer to its end, and return why it is none; one that ends before `last` was cut, and counts as refused.
 */
async function follow({ status, content }: ChannelAnswer, last: string, shows: Shows): Promise<string | undefined> {
  if (status !== 200) {
    let text = "";
    for await (const piece of content) text += new TextDecoder().decode(piece);
    return problemText(JSON.parse(text) as Data);
  }
  for await (const { event, data } of eventsOf(content)) {
    if (event === "refused") return problemText(data);
    shows[event]?.(data);
    if (event === last) return undefined;
  }
  return "The answer was cut off";
}

/** Send, say to which key it went, follow the answer, and say how it ended. */
async function deliver(
  session: Session,
  request: ChannelRequest,
  anew: boolean,
  last: string,
  shows: Shows,
  key: HTMLElement,
  status: HTMLElement,
): Promise<void> {
  let refused: string | undefined;
  try {
    const answer = await session.send(request, anew);
    key.textContent = `Sealed to key ${answer.key.id}, ${short(answer.key.digest)}`;
    refused = await follow(answer, last, shows);
  } catch (error) {
    refused = problemLine(error);
  }
  status.textContent = refused ?? (anew ? last : "");
  status.classList.toggle("refused", refused !== undefined);
}

const post = (path: string, type: string, content: Blob): ChannelRequest => ({
  method: "POST",
  path,
  fields: [["content-type", type]],
  content,
});
const placeText = (data: Data): string => `${textOf(data, "name")}, page ${textOf(data, "page")}`;

function ask(session: Session, question: string): Promise<void> {
  const key = el("small");
  const text = el("p");
  const sources = el("ul");
  const status = el("small", {}, "Asking…");
  const cited = el("ul");
  const passages = el("details", { hidden: true }, el("summary", {}, "Passages"), sources);
  byId("log").append(el("div", {}, el("p", { class: "asked" }, question), key, text, cited, passages, status));
  const shows: Shows = {
    passage: (data) => {
      passages.hidden = false;
      sources.append(el("li", {}, el("small", {}, placeText(data)), textOf(data, "text")));
    },
    text: (data) => text.append(textOf(data, "delta")),
    answer: (data) => {
      text.textContent = textOf(data, "text");
      const citations = (Array.isArray(data.citations) ? data.citations : []) as Data[];
      put(cited, ...citations.map((one) => el("li", {}, `[${textOf(one, "number")}] ${placeText(one)}`)));
    },
  };
  return deliver(
    session,
    post("/v1/questions", "application/json", new Blob([JSON.stringify({ question })])),
    false,
    "answer",
    shows,
    key,
    status,
  );
}

async function uploadAll(session: Session, files: readonly File[]): Promise<void> {
  for (const file of files) await upload(session, file);
}

async function upload(session: Session, file: File): Promise<void> {
  const { name, type } = file;
  const status = el("span", {}, "checking the machine…");
  const key = el("small");
  const bar = el("progress", { "aria-label": `Progress of ${name}` });
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
    status.textContent = `${isEmbedding ? "passage" : "page"} ${done}${all && ` of ${all}`}`;
  };
  const known = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+$/.test(type) ? type : "application/octet-stream";
  await deliver(
    session,
    post(`/v1/documents?name=${encodeURIComponent(name)}`, known, file),
    true,
    "stored",
    { progress },
    key,
    status,
  );
  bar.remove();
}
