/** A simulated machine that its viewer may change: it turns red, nothing is sent, and it turns back. */

import { byId, el, put } from "./dom";
import type { Session } from "./session";
import { saySeen } from "./strings";

const PATH = "/simulated-machine";
const BACK = "as-it-was";
const ANSWER_MS = 30_000;

interface Present {
  readonly changes: readonly string[];
  readonly now: string | null;
}

async function ask(session: Session, path: string, method: "GET" | "POST"): Promise<Present | undefined> {
  const answer = await fetch(`${session.place.service}${path}`, {
    method,
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
    signal: AbortSignal.timeout(ANSWER_MS),
  });
  if (!answer.ok) return undefined;
  const { changes, now } = (await answer.json()) as Partial<Record<string, unknown>>;
  const known = Array.isArray(changes) ? changes.filter((one) => typeof one === "string") : [];
  return { changes: known, now: typeof now === "string" ? now : null };
}

function showPresent(session: Session, { changes, now }: Present): void {
  const { trial } = saySeen();
  const place = byId("trial");
  const make = (name: string): void => {
    void ask(session, `${PATH}/${name}`, "POST")
      .then(async (present) => {
        if (present) showPresent(session, present);
        await session.check();
      })
      .catch(() => undefined); // The next look at the service says what is wrong with it.
  };
  const buttons = changes
    .filter((name) => Object.hasOwn(trial.changes, name))
    .map((name) =>
      el("button", { type: "button", id: `trial-${name}`, click: () => make(name) }, trial.changes[name] ?? ""),
    );
  const back = el("button", { type: "button", id: "trial-back", click: () => make(BACK) }, trial.back);
  put(place, el("p", {}, trial.offer), ...(now === null ? buttons : [el("p", {}, trial.made), back]));
  place.hidden = false;
}

let asked = false;

/** Offer the changes of a simulated machine, if the service has any; asked once. */
export function offerTrial(session: Session): void {
  if (asked) return;
  asked = true;
  void ask(session, PATH, "GET")
    .then((present) => {
      if (present) showPresent(session, present);
    })
    .catch(() => undefined); // A service without these routes offers nothing.
}
