/** The field for questions. The code that asks is fetched when a person turns to it. */

import { byId } from "./dom";
import type { LaterParts } from "./later_parts";
import type { Session } from "./session";
import { obstacle } from "./state";
import { write } from "./status";
import { saySeen } from "./strings";

/** Open what sends where something may be sent, and say why it may not. */
export function showComposer({ state }: Session, isIncomplete: boolean): void {
  const found = obstacle(state);
  const closed = isIncomplete || found !== undefined;
  write("obstacle", isIncomplete ? "" : saySeen().obstacles[found ?? "none"]);
  for (const id of ["question", "ask", "file"]) byId(id).toggleAttribute("disabled", closed);
}

async function ask(session: Session, parts: LaterParts, field: HTMLTextAreaElement): Promise<void> {
  const text = field.value.trim();
  if (!text || obstacle(session.state)) return;
  field.value = "";
  const question = await parts.use("question");
  if (question) await question.ask(session, text, field);
  else field.value ||= text;
}

export function startChat(session: Session, parts: LaterParts): void {
  const field = byId("question", HTMLTextAreaElement);
  byId("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    void ask(session, parts, field);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    byId("composer", HTMLFormElement).requestSubmit();
  });
}
