/** A policy that is loaded, forgotten, or given as a link. Fetched when a person does so. */

import { completed } from "../policy/kept";
import { consented } from "./confirm";
import { readPolicy } from "./judge";
import { offered } from "./policy_links";
import { keepSource } from "./source";
import { say } from "./strings";
import type { Subject } from "./subject";
import { tell } from "./status";
import { take } from "./taking";

export { share } from "./policy_links";

/** Take a policy from files, once a person consents where that is needed. */
export function loadFrom(subject: Subject, chosen: readonly File[], done: () => void): void {
  const names = chosen.map(({ name }) => name).join(", ");
  if (!names) return;
  const policy = async (): Promise<string> => {
    const texts = await Promise.all(chosen.map((one) => one.text()));
    return readPolicy(completed(subject.memory.get("policy"), texts));
  };
  const kept = (): void => keepSource(subject.memory, { by: "file", at: Date.now(), names });
  consented(subject, names, () => void take(subject, policy, say().takenFrom(names), kept).finally(done));
}

export async function forget(subject: Subject): Promise<void> {
  subject.memory.set("source", undefined);
  await subject.accept(undefined);
  tell(say().forgotten);
}

/** Offer the policy that came with the address. */
export async function takeOffered(subject: Subject): Promise<void> {
  await offered((name, text) => {
    const kept = (): void => keepSource(subject.memory, { by: "link", at: Date.now() });
    consented(subject, name, () => void take(subject, () => Promise.resolve(text), say().taken, kept));
  });
}
