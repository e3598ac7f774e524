/** Entry of the page for files. It contacts no service, and its CSP allows no connection. */

import { part } from "../../verifier/parts";
import { byId } from "../dom";
import { label, storeOf } from "../labels";
import { Memory } from "../memory";
import { languageOf, speak, speakFirst, speakSeen } from "../strings";
import { Examination } from "./examination";
import { aboutFiles, firstAboutFiles, seenAboutFiles, wordsIn } from "./words";

/** A policy for files lasts as long as the page is open. */
const NAME = "files";

async function begin(language: string): Promise<void> {
  const [{ page }, alone] = await Promise.all([speakFirst(language, firstAboutFiles), wordsIn(language)]);
  label(language, { ...page, ...alone.page });
  try {
    const [view] = await Promise.all([
      part(import("./examination_view")),
      speakSeen(language, seenAboutFiles),
      speak(language, aboutFiles),
    ]);
    const memory = new Memory(NAME, undefined, (bytes) => crypto.getRandomValues(bytes));
    const examination: Examination = new Examination(
      memory,
      () => Date.now(),
      () => view.show(examination),
    );
    await view.start(examination);
    const { startHistory } = await part(import("./history_view"));
    await startHistory(storeOf(), language);
  } catch {
    byId("files-told").textContent = alone.incomplete;
  }
}

addEventListener("hashchange", () => location.reload());
begin(languageOf(navigator.languages)).catch(() => undefined); // The document says that nothing was checked.
