/** The field for questions. The code that asks is fetched while the machine is checked. */

import { byId } from "./dom";
import type { Session } from "./session";
import { obstacle } from "./state";
import { write } from "./status";
import { say } from "./strings";
import { tell } from "./taking";
import { part } from "../verifier/parts";
import { problemLine } from "./words";

export function showComposer({ state }: Session): void {
  const found = obstacle(state);
  const closed = found !== undefined;
  write("obstacle", say().obstacles[found ?? "none"]);
  for (const id of ["question", "ask", "file"]) byId(id).toggleAttribute("disabled", closed);
}

async function ask(session: Session, field: HTMLTextAreaElement): Promise<void> {
  const text = field.value.trim();
  if (!text || obstacle(session.state)) return;
  field.value = "";
  try {
    const question = await part(import("./question"));
    await question.ask(session, text, field);
  } catch (error) {
    field.value ||= text;
    tell(problemLine(error));
  }
}

export function startChat(session: Session): void {
  const field = byId("question", HTMLTextAreaElement);
  import("./question").catch(() => undefined); // A question shows the failure.
  byId("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    void ask(session, field);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    byId("composer", HTMLFormElement).requestSubmit();
  });
}
