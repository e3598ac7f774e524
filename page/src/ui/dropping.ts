/** Documents that are chosen, or dropped anywhere on the page. */

import { byId, el } from "./dom";
import type { LaterParts } from "./later_parts";
import type { Session } from "./session";
import { obstacle } from "./state";
import { say } from "./strings";

const hasFiles = ({ dataTransfer }: DragEvent): boolean => dataTransfer?.types.includes("Files") === true;

/** True if the browser handles the drop itself: text in a field, files on a file button. */
function isTakenByItself(event: DragEvent): boolean {
  const { target } = event;
  if (target instanceof HTMLTextAreaElement) return !hasFiles(event);
  return target instanceof HTMLInputElement && !target.disabled && (target.type === "file") === hasFiles(event);
}

/** Listen to files; the queue that takes them is fetched when a person brings some. */
export function startDropping(session: Session, parts: LaterParts): void {
  const take = async (files: readonly File[]): Promise<void> => (await parts.use("documents"))?.take(session, files);
  const file = byId("file", HTMLInputElement);
  const sign = el("div", { id: "dropping", hidden: true });
  document.querySelector("main")?.append(sign);
  file.addEventListener("change", () => {
    const files = [...(file.files ?? [])];
    file.value = "";
    void take(files);
  });
  let isOver = false;
  /** Say what a drop does, once the words for it are there. */
  const show = (): void => {
    const { dropClosed, dropHere } = say().upload;
    sign.textContent = obstacle(session.state) ? dropClosed : dropHere;
    sign.hidden = !isOver;
  };
  addEventListener("dragover", (event) => {
    if (isTakenByItself(event)) return;
    // Otherwise the browser would leave this page and open the file.
    event.preventDefault();
    isOver = hasFiles(event);
    if (isOver) void parts.use("documents").then((documents) => documents && show());
  });
  addEventListener("dragleave", ({ relatedTarget }) => {
    if (relatedTarget !== null) return;
    isOver = false;
    sign.hidden = true;
  });
  addEventListener("drop", (event) => {
    isOver = false;
    sign.hidden = true;
    if (isTakenByItself(event)) return;
    event.preventDefault();
    void take([...(event.dataTransfer?.files ?? [])]);
  });
}
