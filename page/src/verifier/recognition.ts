/** What is this file? One form after the other, by content; once a form is decided, a defect is a defect of that form. */

import { type Bytes } from "./bytes";
import { type Evidence, parseEnvelope } from "./envelope";
import type { NamedBytes } from "./endorsements";
import { fail } from "./errors";

/** Files of one Attester as one piece of evidence, with the endorsements among them. */
export interface Recognised {
  readonly evidence: Evidence;
  readonly endorsements: readonly NamedBytes[];
}

export function readEvidence(files: readonly NamedBytes[]): Recognised {
  const [file] = files;
  if (!file?.bytes.length) fail("malformed", "evidence-empty", "no evidence was given", { expected: "evidence", got: "nothing" });
  return { evidence: parseEnvelope(file?.bytes as Bytes), endorsements: [] };
}
