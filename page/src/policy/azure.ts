/** Demands of a policy on an Azure VM around its CPU's report: the section `azure`. */

import { hexOf, integer, listOf, refuse, text } from "./decode";
import { LOADER, ofLog } from "./eventlog";
import { type References, measured } from "./references";
import { type Row, type Test, among, ask, bits, firm, is, mustBe, section, spare } from "./rules";

const PCRS = Array.from({ length: 24 }, (_, index) => index);
/** Identifiers that paravisors write in either case. */
const caseless: Test<readonly string[]> = ["", (found: string, wanted) => wanted.includes(found.toLowerCase())];
const lower = listOf<string>((...given) => text(...given).toLowerCase());
const atMost: Test<number> = ["at most ", (found: number, most) => found <= most];

export function azureRows(references: References): Row {
  const rows = section({
    vm_configuration: bits(
      "secure_boot tpm_enabled console_enabled tpm_persisted filtered_vpci_devices_allowed".split(" "),
      { secure_boot: true, tpm_enabled: true, console_enabled: false },
    ),
    ...spare({
      ...Object.fromEntries(PCRS.map((index) => [`pcr${index}`, measured(references, 32, `pcrs.${index}`)])),
      vm_unique_ids: ask(lower, caseless, "vm_configuration.vm_unique_id"),
      root_cert_thumbprints: ask(lower, caseless, "vm_configuration.root_cert_thumbprint"),
      user_data: among(hexOf(64)),
      tpm_clock_safe: ask(mustBe(true), is, "tpm.safe"),
      maximum_restart_count: firm(integer(0, 2 ** 32 - 1), atMost, "tpm.restart_count"),
      event_log: ofLog(32),
    }),
  });
  return (value, path, name) => {
    const found = rows(value, path, name);
    // Nothing else measures what the VM booted.
    if (!found.some(({ id }) => /\.pcr\d/.test(id) || LOADER.some((list) => id.endsWith(list)))) {
      refuse(path, "a register, or the boot loader's lists", value);
    }
    return found;
  };
}
