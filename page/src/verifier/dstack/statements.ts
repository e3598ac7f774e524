/**
 * Unsigned statements of dstack's services beside a quote: the answers of Info and GetQuote, and app-compose; as
 * `attest.evidence.dstack.statements`. A statement that repeats a signed value has to agree with it.
 *
 * Spec: dstack.md 7.
 */

import { type Bytes, concat, hex, isZero, utf8 } from "../bytes";
import { sha256 } from "../crypto";
import { hexBytes } from "../encoding";
import { AttestError, fail, need, refusalOf } from "../errors";
import { type JsonObject, type JsonValue, isObject, jsonValue } from "../json";
import type { TdReport } from "../tdx/structure";
import { type DstackFacts, keyProviderOf, providerIn, providerText } from "./facts";
import { type DstackLog, dstackLog } from "./structure";

/** Of one text that holds a document; recorded ones have 40 kB. */
const MAX_STATEMENT_BYTES = 1024 * 1024;
type Known = Readonly<Record<string, readonly [subject: string, size: number]>>;
const same = (names: readonly string[], size: number): Known =>
  Object.fromEntries(names.map((name) => [name, [name, size] as const]));
const OF_ANSWER: Known = same(["report_data"], 64);
const OF_VM_CONFIG: Known = same(["os_image_hash"], 32);
const OF_INFO: Known = {
  ...same(["app_id", "instance_id"], 20),
  ...same(["compose_hash", "os_image_hash", "mr_aggregated"], 32),
};
const OF_TCB_INFO: Known = {
  ...OF_INFO,
  mrtd: ["mr_td", 48],
  ...same(["rtmr0", "rtmr1", "rtmr2", "rtmr3"], 48),
};

/** One statement: its path, the signed value that it repeats, and its value as text. */
type Statement = readonly [path: string, subject: string, value: string];

/** Everything stated beside a quote and its log. */
export interface Statements {
  readonly stated: Statement[];
  /** app-compose as presented, exact bytes. */
  readonly appComposes: (readonly [path: string, text: Bytes])[];
  /** Event logs that Info repeats. */
  readonly logs: (readonly [path: string, log: DstackLog])[];
}

const malformed = (field: string, expected: string): never =>
  fail("malformed", "dstack-malformed", "", { check: "dstack.log", field, expected, got: "another value" });

/** Read the value of an item of statements: `dstack-malformed`, or `dstack-log-malformed` of a repeated log. */
export async function parseStatements(data: Bytes): Promise<Statements> {
  const document = await refusalOf(() => jsonValue(data, "statements"));
  if (document instanceof AttestError || !isObject(document)) return malformed("statements", "an object");
  const found: Statements = { stated: [], appComposes: [], logs: [] };
  await addMembers(found, document, "", OF_ANSWER);
  await addVmConfig(found, document, "");
  addCompose(found, document, "");
  const info = await objectIn(document, "", "info");
  if (info) await addInfo(found, info);
  return found;
}

async function addInfo(found: Statements, info: JsonObject): Promise<void> {
  await addMembers(found, info, "info.", OF_INFO);
  await addVmConfig(found, info, "info.");
  await addKeyProvider(found, info);
  const tcbInfo = await objectIn(info, "info.", "tcb_info");
  if (!tcbInfo) return;
  const prefix = "info.tcb_info.";
  await addMembers(found, tcbInfo, prefix, OF_TCB_INFO);
  addCompose(found, tcbInfo, prefix);
  const path = `${prefix}event_log`;
  if (given(tcbInfo, "event_log")) found.logs.push([path, await dstackLog(tcbInfo.event_log, path)]);
}

/** A member that is null or empty text is not there. */
const given = (members: JsonObject, name: string): boolean => (members[name] ?? "") !== "";

async function addMembers({ stated }: Statements, members: JsonObject, prefix: string, known: Known): Promise<void> {
  for (const [name, [subject, size]] of Object.entries(known)) {
    const value = members[name];
    const path = prefix + name;
    if (!given(members, name)) continue;
    const bytes = await refusalOf(() => (typeof value === "string" ? hexBytes(value, path, size) : undefined));
    stated.push([path, subject, bytes instanceof Uint8Array ? hex(bytes) : malformed(path, `${size} bytes of hex`)]);
  }
}

async function addVmConfig(found: Statements, members: JsonObject, prefix: string): Promise<void> {
  const config = await objectIn(members, prefix, "vm_config");
  if (config) await addMembers(found, config, `${prefix}vm_config.`, OF_VM_CONFIG);
}

async function addKeyProvider({ stated }: Statements, info: JsonObject): Promise<void> {
  const value = info.key_provider_info;
  const path = "info.key_provider_info";
  if (!given(info, "key_provider_info")) return;
  const found = await refusalOf(() => (typeof value === "string" ? keyProviderOf(value) : providerIn(value ?? null)));
  if (!found || found instanceof AttestError) return malformed(path, "JSON with name and id");
  stated.push([path, "key_provider", providerText(found)]);
}

function addCompose({ appComposes }: Statements, members: JsonObject, prefix: string): void {
  const value = members.app_compose;
  const path = `${prefix}app_compose`;
  if (!given(members, "app_compose")) return;
  appComposes.push([path, typeof value === "string" ? utf8(value) : malformed(path, "text")]);
}

/** A member that is an object, or the text of one; undefined where it is not there. */
async function objectIn(members: JsonObject, prefix: string, name: string): Promise<JsonObject | undefined> {
  if (!given(members, name)) return undefined;
  const path = prefix + name;
  const value = await documentOf(members[name]!, path);
  return isObject(value) ? value : malformed(path, "an object");
}

async function documentOf(value: JsonValue, path: string): Promise<JsonValue> {
  if (typeof value !== "string") return value;
  const text = utf8(value);
  if (text.length > MAX_STATEMENT_BYTES) malformed(path, `${MAX_STATEMENT_BYTES} bytes`);
  const found = await refusalOf(() => jsonValue(text, path));
  return found instanceof AttestError ? malformed(path, "one strict JSON document") : found;
}

// -- comparison

/** The signed value of each subject as text; what neither quote nor log has is absent. */
export async function signedValues(
  td: TdReport,
  { digests, keyProvider }: DstackFacts,
  composeHash: Bytes | undefined,
): Promise<ReadonlyMap<string, string>> {
  const { mr_td: mrTd, rtmr0, rtmr1, rtmr2, rtmr3, report_data: reportData } = td;
  const configuration = concat(td.mr_config_id, td.mr_owner, td.mr_owner_config);
  const measured = concat(mrTd, rtmr0, rtmr1, rtmr2, rtmr3);
  const values: readonly (readonly [subject: string, value: Bytes | undefined])[] = [
    ["report_data", reportData],
    ["mr_td", mrTd],
    ...Object.entries({ rtmr0, rtmr1, rtmr2, rtmr3 }),
    ["mr_aggregated", await sha256(isZero(configuration) ? measured : concat(measured, configuration))],
    ["compose_hash", composeHash],
    ...["app_id", "instance_id", "os_image_hash"].map((name) => [name, digests.get(name)] as const),
  ];
  const texts = values.flatMap(([subject, value]) => (value ? [[subject, hex(value)] as const] : []));
  return new Map([...texts, ...(keyProvider ? [["key_provider", providerText(keyProvider)] as const] : [])]);
}

/** Require every statement that repeats a signed value to agree with it: `dstack-statement-mismatch`; count those. */
export function requireAgreement({ stated }: Statements, signed: ReadonlyMap<string, string>): number {
  const compared = stated.filter(([, subject]) => signed.has(subject));
  for (const [field, subject, value] of compared) {
    const expected = signed.get(subject);
    need(value === expected, "binding", "dstack-statement-mismatch", expected, value, { field });
  }
  return compared.length;
}
