/** Demands of a policy on an SEV-SNP report: the section `snp` (docs/policy.md), and the rules that it becomes. */

import { PLATFORM_BITS, POLICY_BITS } from "../verifier/snp/claims";
import { PRODUCTS, type Product, type Tcb, covers, partsOf } from "../verifier/snp/tcb";
import { type Reader, choice, hexOf, integer, join, listOf, once, record, refuse, tableOf, text } from "./decode";
import { type References, measured } from "./references";
import {
  type Row,
  type Test,
  acceptedValues,
  among,
  ask,
  atLeast,
  bits,
  denied,
  digests,
  firm,
  flag,
  rule,
  section,
  spare,
} from "./rules";

const byte = integer(0, 255);
const U32 = 2 ** 32 - 1;
const EXACT = Number.MAX_SAFE_INTEGER;

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
