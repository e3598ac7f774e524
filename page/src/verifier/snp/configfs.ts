/** Output of configfs-tsm, as clients of other projects store it. */

import type { Bytes } from "../bytes";
import { base64urlBytes } from "../encoding";
import { need } from "../errors";
import type { ParsedCpu } from "../evidence";
import { type JsonObject, isObject, jsonValue } from "../json";
import { readParts } from "./evidence";

/** Read JSON with base64url members: `configfs-tsm-invalid`, `evidence-unsupported`. */
export function readConfigfsTsm(data: Bytes): Promise<ParsedCpu> {
  const document = jsonValue(data, "configfs-tsm evidence");
  const { provider, outblob, auxblob = "", ...others } = isObject(document) ? document : ({} as JsonObject);
  const areTexts =
    [provider, outblob, auxblob].every((value) => typeof value === "string") && !Object.keys(others).length;
  need(areTexts, "malformed", "configfs-tsm-invalid", "texts provider, outblob, auxblob");
  need(provider === "sev_guest", "unsupported", "evidence-unsupported", "sev_guest", provider as string);
  return readParts(base64urlBytes(outblob as string, "outblob"), base64urlBytes(auxblob as string, "auxblob"));
}
