/** The history of a service, kept whenever something changes, and shown to a person who opens it. */

import { part } from "../../verifier/parts";
import { byId } from "../dom";
import { storeOf } from "../labels";
import type { Session } from "../session";
import { noteHistory } from "./history";

let isOffered = false;

export function keep({ memory, state, place }: Session): void {
  noteHistory(memory, state);
  const fold = byId("history-fold", HTMLDetailsElement);
  const draw = async (): Promise<void> => {
    const { startHistory } = await part(import("./history_view"));
    await startHistory(storeOf(), document.documentElement.lang, place.service);
  };
  if (!isOffered) fold.addEventListener("toggle", () => void (fold.open && draw()));
  isOffered = true;
}
