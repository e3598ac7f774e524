/** Demands of a policy on Intel's quotes: the sections `tdx` and `sgx` (docs/policy.md), and their rules. */

import type { ClaimJson } from "../verifier/api";
import { PLATFORM_STATUSES } from "../verifier/intel/status";
import { isObject } from "../verifier/json";
import { ATTRIBUTE_BITS } from "../verifier/sgx/structure";
import { TD_ATTRIBUTE_BITS } from "../verifier/tdx/structure";
import {
  type Reader,
  choice,
  date,
  hexOf,
  integer,
  mapped,
  maybe,
  moment,
  record,
  refuse,
  tableOf,
  text,
} from "./decode";
import { RUNTIME, ofLog } from "./eventlog";
import { type References, inTime, measured } from "./references";
import {
  type Row,
  type Test,
  among,
  ask,
  atLeast,
  bits,
  claimAt,
  denied,
  digests,
  excused,
  firm,
  flag,
  is,
  mustBe,
  section,
  spare,
} from "./rules";

const byte = integer(0, 255);
const U16 = 0xffff;

/** Of which "Revoked" is a failed verification: no policy can allow it. */
const STATUSES = [
  ...PLATFORM_STATUSES.filter((status) => status !== "Revoked"),
  "TDRelaunchAdvised",
  "TDRelaunchAdvisedConfigurationNeeded",
];
type Advisories = Record<string, { readonly reason: string; readonly expires: string }>;

const advisory = record({ reason: text, expires: date });
const advisories: Reader<Advisories> = tableOf((value, path, name) =>
  /^INTEL-SA-\d{5}$/.test(name) ? advisory(value, path, name) : refuse(path, "INTEL-SA-00837 or such", name),
);
const accepted: Test<Advisories> = [
  "no advisory but ",
  (found: readonly string[], known, at) => found.every((name) => Object.hasOwn(known, name) && inTime(known[name], at)),
];
const since: Test<string> = ["not before ", (found: string, first) => moment(found) >= moment(first)];

const number = (what: string): Row =>
  firm(integer(1, 2 ** 31), atLeast, `${what}evaluation_data_number`, `minimum_${what}evaluation_data_number`);
const tcb = (row: Row): Row => excused("tcb", row);

const TCB: Readonly<Record<string, Row>> = {
  tcb_status: tcb(among(choice(STATUSES), "tcb_status", ["UpToDate"])),
  accepted_advisories: tcb(ask(advisories, accepted, "advisory_ids", {})),
  ...spare({
    minimum_tcb_date: tcb(ask(date, since, "tcb_date")),
    minimum_tcb_evaluation_data_number: tcb((...given) =>
      ["tcb_", "qe_identity_"].flatMap((what) => number(what)(...given)),
    ),
    ...digests({ fmspcs: 6, ppids: 16 }),
    denied_ppids: denied(hexOf(16), "ppid"),
    platform: bits(["dynamic_platform", "cached_keys", "smt_enabled"]),
  }),
};

const zero: Test<boolean> = ["no unnamed bit", (found: ClaimJson) => found === 0];
const known: Test<boolean> = ["known bits", (found: ClaimJson) => found === true];
const covered: Test<Record<string, number>> = [
  "at least version.SVN ",
  ([version, svn]: readonly [number, number], least) => svn >= (least[version] ?? Number.NaN),
];
const attributes = bits(Object.keys(TD_ATTRIBUTE_BITS), { debug: false, sept_ve_disable: true, migratable: false });
const VERSIONS = Array.from({ length: 256 }, (_, version) => `${version}`);

export const tdxRows =
  (references: References): Row =>
  (value, ...place) =>
    section({
      mr_td: measured(references, 48),
      // A demand on a TD's debug bit applies to every bit that makes its memory readable.
      td_attributes: (...given) =>
        attributes(...given).flatMap((bit) =>
          !bit.id.endsWith(".debug")
            ? bit
            : [bit, { ...bit, id: "policy.tdx.under_debug", claim: claimAt("td_attributes.under_debug") }],
        ),
      unnamed_attributes: flag(false, "td_attributes.unnamed", undefined, zero),
      unknown_xfam: flag(false, "xfam_known", undefined, known),
      // Left out, it is demanded that none is bound, unless the policy says which ones may be.
      service_td: (said = isObject(value) && Array.isArray(value.mr_service_td) ? undefined : false, ...at) =>
        maybe(ask(mustBe(false), is, "service_td_bound"), [])(said, ...at),
      ...TCB,
      ...spare({
        ...mapped({ rtmr0: 48, rtmr1: 48, rtmr2: 48, rtmr3: 48 }, (size) => measured(references, size)),
        ...digests({ mr_service_td: 48, mr_seam: 48, mr_config_id: 48, mr_owner: 48, mr_owner_config: 48 }),
        tcb_status_current: tcb(among(choice(STATUSES), "tcb_status_current")),
        minimum_tdx_module_svn: ask(tableOf(byte, VERSIONS), covered, "tdx_module.major_version tdx_module.svn"),
        event_log: ofLog(48, RUNTIME),
      }),
    })(value, ...place);

export const sgxRows = (references: References): Row =>
  section({
    mr_enclave: measured(references, 32),
    attributes: bits(Object.keys(ATTRIBUTE_BITS), { debug: false }),
    ...TCB,
    ...spare({
      ...digests({ mr_signer: 32, config_id: 64 }),
      isv_prod_id: among(integer(0, U16)),
      minimum_isv_svn: firm(integer(0, U16), atLeast, "isv_svn"),
    }),
  });
