/** Questions and documents. Every message says to which key it went. */

import type { ChannelAnswer } from "../channel/index";
import { utf8 } from "../verifier/bytes";
import { byId, el, put, short } from "./dom";
import { type Told, eventsOf, textOf } from "./events";
import { type Session, problemOf } from "./session";
import { obstacle } from "./state";

type Data = Told["data"];

export function showComposer({ state }: Session): void {
  const closed = obstacle(state) !== undefined;
  for (const id of ["question", "ask", "file"]) byId(id).toggleAttribute("disabled", closed);
}

export function startChat(session: Session): void {
  const [question, file, drop] = [byId<HTMLTextAreaElement>("question"), byId<HTMLInputElement>("file"), byId("drop")];
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
    byId<HTMLFormElement>("composer").requestSubmit();
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

const sealedTo = ({ key }: ChannelAnswer): string => `Sealed to key ${key.id}, ${short(key.digest)}`;

const refusal = (error: unknown): string => {
  const { message, code } = problemOf(error);
  return `${message} [${code}]`;
};

/** Members of a refusal, which is an event's or a whole answer's (RFC 9457). */
function problemText(data: Data): string {
  const problem = (typeof data["problem"] === "object" && data["problem"] ? data["problem"] : data) as Data;
  return `${textOf(problem, "detail") || textOf(problem, "title") || "Refused"} [${textOf(problem, "code") || "refused"}]`;
}

/** Follow an answer to its end; one that ends before `last` was cut, and counts as refused. */
async function follow(answer: ChannelAnswer, last: string, each: (told: Told) => void): Promise<string | undefined> {
  if (answer.status !== 200) {
    let text = "";
    for await (const piece of answer.content) text += new TextDecoder().decode(piece);
    return problemText(JSON.parse(text) as Data);
  }
  for await (const told of eventsOf(answer.content)) {
    if (told.event === "refused") return problemText(told.data);
    each(told);
    if (told.event === last) return undefined;
  }
  return "The answer was cut off";
}

async function ask(session: Session, question: string): Promise<void> {
  const [key, text, sources, status] = [el("small"), el("p"), el("ul"), el("small", {}, "Asking…")];
  const passages = el("details", { hidden: true }, el("summary", {}, "Passages"), sources);
  const cited = el("ul");
  byId("log").append(el("div", {}, el("p", { class: "asked" }, question), key, text, cited, passages, status));
  const show: Readonly<Record<string, (data: Data) => void>> = {
    passage: (data) => {
      passages.hidden = false;
      sources.append(el("li", {}, el("small", {}, `${textOf(data, "name")}, page ${textOf(data, "page")}`), textOf(data, "text")));
    },
    text: (data) => text.append(textOf(data, "delta")),
    answer: (data) => {
      text.textContent = textOf(data, "text");
      const citations = (Array.isArray(data["citations"]) ? data["citations"] : []) as Data[];
      put(cited, ...citations.map((one) => el("li", {}, `[${textOf(one, "number")}] ${textOf(one, "name")}, page ${textOf(one, "page")}`)));
    },
  };
  try {
    const fields = [["content-type", "application/json"]] as const;
    const answer = await session.send({ method: "POST", path: "/v1/questions", fields, content: utf8(JSON.stringify({ question })) });
    key.textContent = sealedTo(answer);
    finish(status, await follow(answer, "answer", ({ event, data }) => show[event]?.(data)), "");
  } catch (error) {
    finish(status, refusal(error), "");
  }
}

function finish(status: HTMLElement, refused: string | undefined, done: string): void {
  status.textContent = refused ?? done;
  status.classList.toggle("refused", refused !== undefined);
}

async function uploadAll(session: Session, files: readonly File[]): Promise<void> {
  for (const file of files) await upload(session, file);
}

async function upload(session: Session, file: File): Promise<void> {
  const [status, key, bar] = [el("span", {}, "checking the machine…"), el("small"), el("progress", { "aria-label": `Progress of ${file.name}` })];
  byId("uploads").append(el("li", {}, `${file.name}: `, status, " ", bar, key));
  const path = `/v1/documents?name=${encodeURIComponent(file.name)}`;
  const fields = [["content-type", /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+$/.test(file.type) ? file.type : "application/octet-stream"]] as const;
  const show: Readonly<Record<string, (data: Data) => void>> = {
    progress: (data) => {
      const [pages, of, passages, ofPassages] = ["pages", "of", "passages", "of_passages"].map((name) => textOf(data, name));
      // Embedding takes nearly all of the time, long after the last page was read: it has the bar for itself.
      const [done, all] = ofPassages ? [passages, ofPassages] : [pages, of];
      if (all) [bar.max, bar.value] = [Number(all), Number(done)];
      status.textContent = ofPassages ? `passage ${passages} of ${ofPassages}` : `page ${pages}${of && ` of ${of}`}`;
    },
  };
  try {
    const answer = await session.send({ method: "POST", path, fields, content: file }, true);
    key.textContent = sealedTo(answer);
    finish(status, await follow(answer, "stored", ({ event, data }) => show[event]?.(data)), "stored");
  } catch (error) {
    finish(status, refusal(error), "");
  }
  bar.remove();
}
