/**
 * Demands of a policy on CPUs: the sections `snp`, `tdx` and `sgx` (docs/policy.md), and the rules that they become.
 */

import type { ClaimJson } from "../verifier/api";
import { PLATFORM_STATUSES } from "../verifier/intel/status";
import { isObject } from "../verifier/json";
import { ATTRIBUTE_BITS } from "../verifier/sgx/structure";
import { PLATFORM_BITS, POLICY_BITS } from "../verifier/snp/claims";
import { PRODUCTS, type Product, type Tcb, covers, partsOf } from "../verifier/snp/tcb";
import { TD_ATTRIBUTE_BITS } from "../verifier/tdx/structure";
import {
  type Reader,
  choice,
  date,
  hexOf,
  integer,
  join,
  listOf,
  mapped,
  maybe,
  moment,
  once,
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
  acceptedValues,
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
  rule,
  section,
  spare,
} from "./rules";

const byte = integer(0, 255);
const U16 = 0xffff;
const U32 = 2 ** 32 - 1;
const EXACT = Number.MAX_SAFE_INTEGER;

// -- SEV-SNP

/** All components of the product line: one that is left out would silently be zero. */
const tcbOf: Reader<Tcb> = (value, path, product) => {
  const levels = partsOf(product as Product).map(([level]) => [level, byte] as const);
  return record(Object.fromEntries(levels))(value, path, product);
};

const tcbsOf: Reader<Tcb[]> = (value, path, product) => {
  const found = listOf(tcbOf)(value, path, product);
  once(found, path);
  return found;
};

const KEYS = ["vcek", "vlek"];
type OnLine = readonly [tcb: Tcb, product: string];
const reaches: Test<Record<string, Tcb>> = [
  "at least ",
  ([tcb, product]: OnLine, { [product]: least }) => least !== undefined && covers(tcb, least),
];
const equals: Test<Record<string, Tcb[]>> = [
  "exactly ",
  ([tcb, product]: OnLine, { [product]: listed = [] }) => listed.some((one) => covers(tcb, one) && covers(one, tcb)),
];

const tcbRows = (which: string): Record<string, Row> => ({
  [`minimum_${which}tcb`]: ask(tableOf(tcbOf, PRODUCTS), reaches, `${which || "reported_"}tcb product`),
  [`exact_${which}tcb`]: ask(tableOf(tcbsOf, PRODUCTS), equals, `${which || "reported_"}tcb product`),
});

type Abi = Readonly<Record<"major" | "minor", number>>;
const abi: Test<Abi> = [
  "at least ",
  ([major, minor]: readonly [number, number], least) => major * 256 + minor >= least.major * 256 + least.minor,
];
const hasBits: Test<number> = [
  "every bit of ",
  (found: number, mask) => (BigInt(found) & BigInt(mask)) === BigInt(mask),
];
/** Under a VLEK a zero CHIP_ID is normal; under a VCEK it keeps the certificate from being compared with the chip. */
const masked: Test<boolean> = [
  "",
  ([key, isZero]: readonly [string, boolean], wanted) => (key === "vcek" && isZero) === wanted,
];
/** VCEK seeds of Milan can be extracted by software: any report of any TCB can be forged. */
const sound: Test<string> = ["not ", (found: string, wanted) => found !== wanted];

const SPARE_LEVEL = "spl[4-7]:(?:[1-9]\\d?|1\\d\\d|2[0-4]\\d|25[0-5])";

export function snpRows(
  references: References,
  tell: (path: string, spls: Readonly<Record<string, string>>) => void,
): Row {
  let spls: Readonly<Record<string, string>> = {};
  const rows = section({
    products: among(choice(PRODUCTS), "product"),
    measurement: measured(references, 48),
    vmpl: among(integer(0, 3), undefined, [0]),
    signing_key: among(choice(KEYS), undefined, KEYS),
    guest_policy: bits(Object.keys(POLICY_BITS), { debug: false, migrate_ma: false }, "policy"),
    platform_info: bits(Object.keys(PLATFORM_BITS), { alias_check_complete: true }),
    provisional_firmware: flag(false),
    rollback_protection: flag(true, undefined, "firmware_rollback_protected"),
    rolled_back_since_launch: flag(false),
    masked_chip_id: flag(false, "signing_key chip_id_masked", undefined, masked),
    ...spare({
      ...digests({
        host_data: 32,
        id_key_digests: 48,
        author_key_digests: 48,
        family_ids: 16,
        image_ids: 16,
      }),
      chip_ids: among(hexOf(64), "chip_identity"),
      csp_ids: among(text),
      denied_chip_ids: denied(hexOf(64), "chip_identity"),
      minimum_abi: ask(record<Abi>({ major: byte, minor: byte }), abi, "policy.abi_major policy.abi_minor"),
      minimum_guest_svn: firm(integer(0, U32), atLeast, undefined, "guest_svn"),
      ...tcbRows(""),
      ...tcbRows("committed_"),
      ...tcbRows("launch_"),
      mitigations_at_launch: firm(integer(1, EXACT), hasBits, undefined, "launch_mit_vector"),
      accepted_spls: acceptedValues(SPARE_LEVEL, (values) => {
        spls = values;
      }),
      mitigations_now: firm(integer(1, EXACT), hasBits, undefined, "current_mit_vector"),
    }),
  });
  return (value, path, name) => {
    spls = {};
    const found = rows(value, path, name);
    tell(path, spls);
    if (!found.some(({ id }) => /(minimum|exact)_tcb/.test(id))) refuse(join(path, "minimum_tcb"), "this or exact_tcb");
    return [
      ...found,
      { ...rule(`${path}.product_known_broken`, { value: "Milan" }, sound, "product"), otherwise: "warning" },
    ];
  };
}

// -- TDX and SGX

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
