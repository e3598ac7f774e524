/** Export and import of the access token, which gives access to a person's documents. The browser has the only copy. */

import { download } from "./dom";
import { TOKEN } from "./memory";
import type { Session } from "./session";

const SCHEMA = "attest.access-token/1";
const MOST_BYTES = 4096;

/** Save the token as a file. Returns false if the page has not drawn one yet. */
export function saveToken({ memory, place }: Session): boolean {
  const token = memory.get("token");
  if (token === undefined) return false;
  download("attest-access-token.json", `${JSON.stringify({ schema: SCHEMA, service: place.service, token })}\n`);
  return true;
}

/** A token read from a file. A file without one is never quoted. */
export type ReadToken = { readonly token: string } | { readonly elsewhere: string } | undefined;

export async function readToken(file: File, service: string): Promise<ReadToken> {
  if (file.size > MOST_BYTES) return undefined;
  try {
    const found = JSON.parse(await file.text()) as Partial<Record<string, unknown>> | null;
    const { schema, service: of, token } = found ?? {};
    if (schema !== SCHEMA || typeof token !== "string" || !TOKEN.test(token) || typeof of !== "string") {
      return undefined;
    }
    return of === service ? { token } : { elsewhere: of.slice(0, 255) };
  } catch {
    return undefined;
  }
}
