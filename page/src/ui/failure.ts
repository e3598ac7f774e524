/** What a refusal means, and what is technical about it behind a fold. Fetched when something is refused. */

import { byId, code, el, put } from "./dom";
import { joined } from "./moments";
import type { State } from "./state";
import { say } from "./strings";
import { problemWords } from "./words";

export { whyRefused } from "./words";

export function showFailure({ phase, problem }: State, wasSent: boolean): void {
  const { nothingMore, nothingSent, details, code: name } = say();
  const place = byId("failure");
  const isShown = (phase === "refused" || phase === "unreachable") && problem;
  place.hidden = !isShown;
  if (!isShown) return;
  const [, now] = problemWords(problem);
  put(
    place,
    el("p", {}, joined(wasSent ? nothingMore : nothingSent, now)),
    el(
      "details",
      {},
      el("summary", {}, details),
      el("p", {}, `${name} `, code(problem.code)),
      el("pre", {}, problem.message),
    ),
  );
}
