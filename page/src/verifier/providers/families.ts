/** The families of documents: how each is recognised, and how it is read. */

import type { Bytes } from "../bytes";
import { type Evidence, MEDIA } from "../envelope";
import { jsonValue } from "../json";
import { isChutesEvidence, isChutesList, isGateway, isMachine, isTinfoil } from "../provider_files";
import { readEvidenceAnswer, readList } from "./chutes";
import type { ProviderDocument } from "./document";
import { readGateway, readMachine } from "./dstack";
import { readTinfoil } from "./tinfoil";
import { ambiguous, demand, unsupported } from "./values";

const MAX_DOCUMENT_BYTES = 2 * 1024 * 1024;
const PERMITTED: readonly string[] = [MEDIA.providerDocument, MEDIA.providerKeys, MEDIA.endorsements];
const WHOLE = "one document, perhaps with the keys that belong to it";

/** Read a document, perhaps with the keys that came in an answer of their own, into its machines. */
export async function parseDocument(items: Evidence): Promise<ProviderDocument> {
  const data = only(items, MEDIA.providerDocument);
  const keys = only(items, MEDIA.providerKeys);
  const others = items.filter(({ essence }) => !PERMITTED.includes(essence)).map(({ name }) => name);
  if (!data || others.length) return ambiguous(WHOLE, others.join(", ") || "keys alone");
  return readDocument(data, keys);
}

async function readDocument(data: Bytes, keys: Bytes | undefined): Promise<ProviderDocument> {
  demand(data.length <= MAX_DOCUMENT_BYTES, "document", `at most ${MAX_DOCUMENT_BYTES} bytes`);
  const document = jsonValue(data, "document");
  if (isChutesEvidence(document)) {
    return readEvidenceAnswer(document, keys && jsonValue(keys, "instances"));
  }
  if (keys) return ambiguous("keys beside the evidence that they belong to", "keys beside another document");
  if (isGateway(document)) return readGateway(document);
  if (isMachine(document)) return readMachine(document);
  if (isChutesList(document)) return readList(document);
  return isTinfoil(document) ? readTinfoil(document, data) : unsupported("document", "a known service", "JSON");
}

function only(items: Evidence, essence: string): Bytes | undefined {
  const found = items.filter((item) => item.essence === essence);
  return found.length > 1 ? ambiguous(WHOLE, `${found.length} of one kind`) : found[0]?.value;
}
