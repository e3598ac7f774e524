/** Claims of a verified Azure VM, in addition to those of its CPU's report. */

import { type Claims, nestedClaims } from "../claims";
import type { PcrValues, TpmQuote } from "../tpm/quote";
import type { RuntimeClaims } from "./runtime";
import type { HclReport } from "./structure";

/** Facts that the CPU's report authenticates. */
export interface VerifiedMachine {
  readonly hcl: HclReport;
  readonly runtime: RuntimeClaims;
  readonly quote: TpmQuote;
  readonly pcrs: PcrValues;
}

/** The claims of the virtual TPM and of the paravisor. */
export function azureClaims({ hcl, runtime, quote, pcrs }: VerifiedMachine): Claims {
  return nestedClaims({
    pcrs: Object.fromEntries(pcrs),
    vm_configuration: unlessEmpty(runtime.vmConfiguration),
    user_data: runtime.userData,
    tpm: quote.claims,
    hcl: { version: hcl.version },
    unknown_claims: unlessEmpty(runtime.unknown),
  });
}

const unlessEmpty = <T extends object>(members: T): T | undefined =>
  Object.keys(members).length ? members : undefined;
