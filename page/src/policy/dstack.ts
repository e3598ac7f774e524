/**
 * Demands of a policy on the events of dstack: the section `dstack`, beside `tdx` with RTMR1 and RTMR2. The events
 * are only as good as the code that extends the register.
 */

import { told } from "./claims";
import { type Json, hexOf, like, listOf, maybe, record, refuse } from "./decode";
import { type Row, type Test, ask, excused, oneOf, section, spare } from "./rules";

interface KeyProvider {
  readonly name: string;
  readonly id: string | undefined;
}

const keyProvider = record<KeyProvider>({ name: like("[a-z\\d][a-z\\d-]{0,63}"), id: maybe(hexOf()) });
const provided: Test<readonly KeyProvider[]> = [
  "one of ",
  (found: Required<KeyProvider>, accepted) =>
    accepted.some(({ name, id }) => name === found.name && (id === undefined || id === found.id)),
  (accepted) => accepted.map(({ name, id }) => `${name} ${id ?? "with any id"}`).join(", "),
];

const ROWS = section(
  spare({
    compose_hashes: ask(listOf(hexOf(32)), oneOf, "eventlog.dstack.compose_hash"),
    os_images: ask(listOf(hexOf(32)), oneOf, "eventlog.dstack.os_image_hash"),
    app_ids: ask(listOf(hexOf(20)), oneOf, "eventlog.dstack.app_id"),
    key_providers: ask(listOf(keyProvider), provided, "eventlog.dstack.key_provider"),
  }),
);

/** A section that names nothing demands nothing. */
const filledRows: Row = (value: Json, path, name) => {
  const rules = ROWS(value, path, name);
  return rules.length ? rules : refuse(path, "a list of what is accepted", told(value));
};

export const dstackRows: Row = excused("eventlog", filledRows);
