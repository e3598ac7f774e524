/** Messages to the machine: sending, reading the answer to its end, and the reason if there is no answer. */

import type { ChannelAnswer, ChannelRequest } from "../channel/index";
import { el, short } from "./dom";
import { type Told, eventsOf, textOf } from "./events";
import { kindOf } from "./problem_kinds";
import { type Problem, problemOf } from "./problems";
import type { Session } from "./session";
import { say } from "./strings";
import { problemWords } from "./words";

export type Data = Told["data"];
/** Statuses of a service that has no time. */
const BUSY = [429, 503];
const MOST_WHOLE_BYTES = 4 * 1024 * 1024;

/** Members of a refusal, which is an event's or a whole answer's (RFC 9457). */
function refusalOf(data: Data, status: number): Problem {
  const problem = (typeof data.problem === "object" && data.problem ? data.problem : data) as Data;
  const code = textOf(problem, "code") || "refused";
  const message = textOf(problem, "detail") || textOf(problem, "title");
  // A retry would take as long.
  const isFinal = kindOf(code) === "ended" || code === "rag-upload-too-slow";
  return { code, message, passing: !isFinal && BUSY.includes(Number(textOf(problem, "status") || status)) };
}

/** What is shown of each event, by its name. */
export type Shows = Readonly<Record<string, (data: Data) => void>>;

async function wholeOf({ content }: ChannelAnswer): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const piece of content) {
    text += decoder.decode(piece, { stream: true });
    if (text.length > MOST_WHOLE_BYTES) throw new SyntaxError("an answer is too long");
  }
  return text;
}

/**
 * Read an answer to its end. Returns the problem, if any; an answer that ends before the event `last` is truncated.
 */
async function follow(answer: ChannelAnswer, last: string, shows: Shows): Promise<Problem | undefined> {
  const { status, content } = answer;
  if (status !== 200) return refusalOf(JSON.parse(await wholeOf(answer)) as Data, status);
  for await (const { event, data } of eventsOf(content)) {
    if (event === "refused") return refusalOf(data, status);
    shows[event]?.(data);
    if (event === last) return undefined;
  }
  return { code: "channel-truncated", message: say().cut };
}

export interface Delivery {
  readonly request: ChannelRequest;
  /** The machine is checked before. */
  readonly anew: boolean;
  /** The event in which a whole answer ends. */
  readonly last: string;
  readonly shows: Shows;
  readonly key: HTMLElement;
}

/** Send a message, show the key that it was encrypted to, and read the answer. Returns the problem, if any. */
export async function deliver(session: Session, delivery: Delivery): Promise<Problem | undefined> {
  const { request, anew, last, shows, key } = delivery;
  try {
    const answer = await session.send(request, anew);
    key.textContent = say().sealedKey(answer.key.id, short(answer.key.digest));
    const problem = await follow(answer, last, shows);
    if (problem && kindOf(problem.code) === "ended") await session.check();
    return problem;
  } catch (error) {
    return problemOf(error);
  }
}

/** Send a message. Returns the whole JSON answer, which is `{}` for an empty body, or the problem. */
export async function exchange(
  session: Session,
  request: ChannelRequest,
): Promise<{ found?: Data; problem?: Problem }> {
  try {
    const answer = await session.send(request);
    const text = await wholeOf(answer);
    const found = text === "" ? {} : (JSON.parse(text) as Data);
    return answer.status < 300 ? { found } : { problem: refusalOf(found, answer.status) };
  } catch (error) {
    return { problem: problemOf(error) };
  }
}

/** Show the outcome: what was done, or what went wrong and what to do now. */
export function showEnd(place: HTMLElement, problem: Problem | undefined, done: string, now?: string): void {
  place.textContent = done;
  place.classList.toggle("refused", problem !== undefined);
  if (!problem) return;
  const { refusedByService, details } = say();
  const [what, usual] = problemWords(problem);
  const ours = kindOf(problem.code) === "other" ? refusedByService(problem.message) : `${what} ${now ?? usual}`;
  place.replaceChildren(
    ours,
    el("details", {}, el("summary", {}, details), el("small", {}, `${problem.message} [${problem.code}]`)),
  );
}

export const post = (path: string, type: string, content: Blob): ChannelRequest => ({
  method: "POST",
  path,
  fields: [["content-type", type]],
  content,
});
