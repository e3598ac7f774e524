/** Documents that are chosen, or dropped anywhere on the page. */

import { byId, el } from "./dom";
import type { Session } from "./session";
import { obstacle } from "./state";
import { say } from "./strings";
import { tell } from "./taking";
import { part } from "../verifier/parts";
import { problemLine } from "./words";

/** Pass files to the queue, which is loaded on demand. */
async function take(session: Session, files: readonly File[]): Promise<void> {
  try {
    const documents = await part(import("./documents"));
    documents.take(session, files);
  } catch (error) {
    tell(problemLine(error));
  }
}

const hasFiles = ({ dataTransfer }: DragEvent): boolean => dataTransfer?.types.includes("Files") === true;

/** True if the browser handles the drop itself: text in a field, files on a file button. */
function isTakenByItself(event: DragEvent): boolean {
  const { target } = event;
  if (target instanceof HTMLTextAreaElement) return !hasFiles(event);
  return target instanceof HTMLInputElement && !target.disabled && (target.type === "file") === hasFiles(event);
}

export function startDropping(session: Session): void {
  const file = byId("file", HTMLInputElement);
  const sign = el("div", { id: "dropping", hidden: true });
  document.querySelector("main")?.append(sign);
  file.addEventListener("change", () => {
    const files = [...(file.files ?? [])];
    file.value = "";
    void take(session, files);
  });
  addEventListener("dragover", (event) => {
    if (isTakenByItself(event)) return;
    // Otherwise the browser would leave this page and open the file.
    event.preventDefault();
    if (!hasFiles(event)) return;
    const { dropClosed, dropHere } = say().upload;
    sign.textContent = obstacle(session.state) ? dropClosed : dropHere;
    sign.hidden = false;
  });
  addEventListener("dragleave", ({ relatedTarget }) => (sign.hidden ||= relatedTarget === null));
  addEventListener("drop", (event) => {
    sign.hidden = true;
    if (isTakenByItself(event)) return;
    event.preventDefault();
    void take(session, [...(event.dataTransfer?.files ?? [])]);
  });
}
