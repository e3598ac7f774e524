/** PEM (RFC 7468): text between blocks is ignored. */

import type { Bytes } from "./bytes";
import { base64Bytes } from "./encoding";

export interface PemBlock {
  readonly label: string;
  readonly content: Bytes;
}

const BLOCK = /-----BEGIN ([A-Z0-9 ]{1,40})-----[\t-\r ]([A-Za-z0-9+/=\t-\r ]*)-----END \1-----/g;

/** Every block, in order: `base64-invalid` when the content of one is none. */
export function readPemBlocks(text: string): PemBlock[] {
  return [...text.matchAll(BLOCK)].map(([, label = "", content = ""]) => ({
    label,
    content: base64Bytes(content.replace(/[\t-\r ]/g, ""), "PEM"),
  }));
}
