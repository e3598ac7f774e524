/** The facts of CPUs other than SEV-SNP that a person can accept. */

import { told, type Claims, claimOf } from "./claims";
import { type Fact, fact, measured, snpFacts } from "./fact";

const REGISTERS = [0, 1, 2, 3];

function tdxFacts(claims: Claims, registers: readonly number[]): Fact[] {
  const version = claimOf(claims, "tdx_module.major_version");
  const svn = claimOf(claims, "tdx_module.svn");
  return [
    measured("tdx.mr_td", claims.mr_td),
    ...registers.map((index) => measured(`tdx.rtmr${index}`, claims[`rtmr${index}`])),
    fact("tdx.module", { version, svn }, (choice) => ({
      "tdx.mr_seam": choice === "exact" ? [claims.mr_seam] : undefined,
      "tdx.minimum_tdx_module_svn": { [told(version)]: svn },
    })),
  ];
}

/** Measurements of dstack in RTMR3: the app-compose that it started, its image and app, and its key provider. */
function dstackFacts(claims: Claims): Fact[] {
  const { compose_hash, os_image_hash, app_id, key_provider } = (claimOf(claims, "eventlog.dstack") ?? {}) as Claims;
  const { name, id } = (key_provider ?? {}) as Claims;
  const found = {
    compose_hashes: compose_hash,
    os_images: os_image_hash,
    app_ids: app_id,
    // A provider without an id is known by its name.
    key_providers: id === "" ? { name: name! } : key_provider,
  };
  return Object.entries(found).flatMap(([key, value]) => {
    const place = `dstack.${key}`;
    return value === undefined ? [] : [fact(place, value, () => ({ [place]: [value] }), ["exact"])];
  });
}

/** An enclave is known by its measurement, or by who signed it; the signer's rows are demanded in either case. */
function sgxFacts({
  mr_enclave: measurement,
  mr_signer: signer,
  isv_prod_id: product,
  isv_svn: version,
}: Claims): Fact[] {
  const demands = { "sgx.mr_signer": [signer], "sgx.isv_prod_id": [product], "sgx.minimum_isv_svn": version };
  return [
    measured("sgx.mr_enclave", measurement, ["exact", "newer"]),
    fact("sgx.signer", { signer, product, version }, () => demands, ["newer"]),
  ];
}

const PCRS = [...Array(10).keys(), 11, 12, 13, 14, 15];

const azureFacts = (claims: Claims): Fact[] =>
  PCRS.flatMap((index) => {
    const value = claimOf(claims, `pcrs.${index}`);
    return /[^0]/.test(told(value)) ? measured(`azure.pcr${index}`, value) : [];
  });

const CPUS: Readonly<Record<string, (claims: Claims) => Fact[]>> = {
  tdx: (claims) => [...tdxFacts(claims, REGISTERS), ...dstackFacts(claims)],
  sgx: sgxFacts,
  "azure-snp": (claims) => [...azureFacts(claims), ...snpFacts(claims.snp as Claims)],
  // The registers of a TD on Azure are zeros.
  "azure-tdx": (claims) => [...azureFacts(claims), ...tdxFacts(claims.tdx as Claims, [])],
};

export const cpuFacts = (kind: string, claims: Claims): Fact[] => CPUS[kind]?.(claims) ?? [];
