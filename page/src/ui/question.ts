/** One question and its answer, which says to which key the question went. */

import { AnswerView } from "./answers";
import { type Shows, deliver, post, showEnd } from "./delivery";
import { byId, el } from "./dom";
import type { Session } from "./session";
import { say } from "./strings";

/** Ask; a question without an answer returns to its field, unless another one stands there by then. */
export async function ask(session: Session, question: string, field: HTMLTextAreaElement): Promise<void> {
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
  const problem = await deliver(session, { request, anew: false, last: "answer", shows, key });
  const isBack = problem !== undefined && field.value === "";
  if (isBack) field.value = question;
  showEnd(status, problem, "", isBack ? say().questionBack : undefined);
}
