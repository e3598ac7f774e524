/** Taking a policy into use, and what is said of it. */

import { tell } from "./status";
import { say } from "./strings";
import type { Subject } from "./subject";
import { problemLine } from "./words";

/** Take a policy, which takes the place of the one that is there only if it can be read. */
export async function take(
  subject: Subject,
  policy: () => Promise<string>,
  done: string,
  taken: () => void,
): Promise<void> {
  try {
    const text = await policy();
    taken();
    await subject.accept(text);
    tell(done);
  } catch (error) {
    tell(say().notTaken(problemLine(error)));
  }
}
