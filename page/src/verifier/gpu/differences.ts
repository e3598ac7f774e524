/**
 * Measurements that differ, for people: which component, and for which versions the value that was found is good.
 *
 * Spec: specs/nvidia-gpu.md, sections 9.2 and 10.
 */

import { AttestError, refusalOf } from "../errors";
import type { RimDocument } from "../rims";
import type { Comparison } from "./measurements";
import type { PresentedDevice } from "./presented";
import { type ParsedRim, findSigners, readRim } from "./rim";

/** Available RIMs that are searched for a measured value. */
const MAX_OTHER_RIMS = 64;
/** Names of records that name no component. */
const NUMBER_ALONE = /^(?:Mixed|Hashed)?Measurement_\d+$/;

/** Describe each difference in a few words. */
export async function differencesText(differing: readonly Comparison[], presented: PresentedDevice): Promise<string> {
  const documents = presented.given.endorsements.rims.slice(0, MAX_OTHER_RIMS);
  const rims = await Promise.all(documents.map((document) => signedRim(document, presented)));
  return differing.map((result) => differenceText(result, rims.flat())).join(", ");
}

function differenceText({ index, source, name, got }: Comparison, rims: readonly ParsedRim[]): string {
  const named = NUMBER_ALONE.test(name) ? "" : `, ${name}`;
  const good = rims.filter(({ referenceValues }) => got && referenceValues.get(index)?.includes(got));
  const versions = new Set(good.map(({ product, version }) => `${product} ${version}`));
  return `${index} (${source}${named})${versions.size ? `, valid for ${[...versions].join(" and ")}` : ""}`;
}

/** A RIM of the device's product that NVIDIA signed; dates do not matter here. */
async function signedRim(document: RimDocument, { model, given }: PresentedDevice): Promise<readonly ParsedRim[]> {
  const rim = await refusalOf(() => readRim(document));
  if (rim instanceof AttestError || !rim.isSigned) return [];
  const root = await refusalOf(() => findSigners(rim, given.anchors));
  return root instanceof AttestError || !model || !("product" in model) || model.product !== rim.product ? [] : [rim];
}
