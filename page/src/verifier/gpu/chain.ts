/**
 * From the attestation key of a device to NVIDIA's pinned root: L5, L4, L3, L2, and the root that is an argument.
 *
 * In the JSON forms the chain belongs to the evidence and its order counts. For a raw report it lies among the
 * endorsements, perhaps with chains of other devices: there the leaf is the one whose key verifies the report, and
 * issuers are found by name, and of several the one that passes every check.
 *
 * Spec: specs/nvidia-gpu.md, sections 5 and 6.
 */

import { type Anchor, type TrustAnchors, type VendorRoot, anchorsOf, isSimulatedPin } from "../anchors";
import { equal } from "../bytes";
import { MAX_CANDIDATES, type Dated, bestCandidate, requireCa, requireIssued } from "../chain";
import { ECDSA_SHA384, ecdsaHolds } from "../crypto";
import { AttestError, refusal, refusalOf } from "../errors";
import { type Endorsements, named } from "../pool";
import { type Certificate, type Issuer, spkiPin } from "../x509";
import { isLeaf, readLeaf, requireP384, withoutFirmwareId } from "./certificates";
import type { ParsedGpuEvidence } from "./evidence";
import type { ParsedGpuReport } from "./structure";

/** L5, L4, L3 and L2: certificates between the report and the root. */
const PATH_LENGTH = 4;
/** Leaves that are tried for one raw report: eight machines with twelve devices are fewer than a hundred. */
const MAX_LEAVES = 64;

/** Certificates of a device as found; nothing of it is trusted. */
export interface DevicePath {
  /** L5, L4, L3 and L2 in this order, or as far as they were found. */
  readonly certificates: readonly Certificate[];
  /** Certificates that came in the place of the root; only compared with a pin. */
  readonly roots: readonly Certificate[];
  /** Why the path is not complete. */
  readonly failure: AttestError | undefined;
  /**
   * The first certificate, if it claims to be that of an attestation key, and the one after it, which should be the
   * device's.
   */
  readonly leaf: Certificate | undefined;
  readonly device: Certificate | undefined;
}

/** A pinned root, with its name, key and dates: as they are held, or else of the certificate that came in its place. */
export interface Root {
  readonly anchor: Anchor;
  readonly issuer: Issuer & Dated;
}

// -- finding

/** A check of a path, or of its upper part, that serves to choose among several certificates in the pool. */
export type PathCheck = (certificates: readonly Certificate[]) => Promise<void>;

/** The certificates from the attestation key up to L2, as they came with the evidence or lie in the pool. */
export async function findPath(
  { report, chain }: ParsedGpuEvidence,
  pool: Endorsements,
  ...checks: readonly PathCheck[]
): Promise<DevicePath> {
  const { certificates, failure, root } = chain ? presentedPath(chain) : await pooledPath(report, pool, checks);
  const [first, device] = certificates;
  const leaf = first && isLeaf(first) ? first : undefined;
  const last = certificates.at(-1);
  const roots = [...(root ? [root] : []), ...(last ? named(pool, last.issuer) : [])];
  return { certificates, roots, failure, leaf, device: leaf && device };
}

/** Certificates up to L2, or as far as they go, and a certificate that stands in the place of the root. */
interface FoundPath {
  readonly certificates: readonly Certificate[];
  readonly failure: AttestError | undefined;
  readonly root?: Certificate | undefined;
}

/** A root from the evidence is none: a self-issued last certificate stands in its place. */
function presentedPath(chain: readonly Certificate[]): FoundPath {
  const last = chain.at(-1);
  const root = last && isSelfIssued(last) ? last : undefined;
  const certificates = root ? chain.slice(0, -1) : chain;
  const { length } = certificates;
  const isWhole = length === PATH_LENGTH;
  return {
    certificates,
    root,
    failure: isWhole ? undefined : refusal("chain", "gpu-chain-length", `${PATH_LENGTH}`, `${length}`),
  };
}

async function pooledPath(
  report: ParsedGpuReport,
  pool: Endorsements,
  checks: readonly PathCheck[],
): Promise<FoundPath> {
  const search = new PathSearch(pool, checks);
  const leaf = await bestCandidate(await findLeaves(report, pool), readLeaf, ...search.judges(PATH_LENGTH));
  if (leaf) return search.upward(leaf, PATH_LENGTH);
  return { certificates: [], failure: refusal("endorsement", "gpu-leaf-missing", "a firmware id", "none") };
}

/** A search through certificates that bear the wanted names, damaged copies among them. */
class PathSearch {
  private readonly found = new Map<Certificate, Map<number, Promise<FoundPath>>>();

  constructor(
    private readonly pool: Endorsements,
    private readonly checks: readonly PathCheck[],
  ) {}

  /** Return the best path of this length that begins with a certificate, or as far as it goes. */
  upward(certificate: Certificate, length: number): Promise<FoundPath> {
    const byLength = this.found.get(certificate) ?? new Map<number, Promise<FoundPath>>();
    const path = byLength.get(length) ?? this.search(certificate, length);
    this.found.set(certificate, byLength.set(length, path));
    return path;
  }

  /** The checks of the path that begins with a certificate. */
  judges(length: number): readonly ((certificate: Certificate) => Promise<void>)[] {
    const whole = async (certificate: Certificate): Promise<void> => {
      const { failure } = await this.upward(certificate, length);
      if (failure) throw failure;
    };
    return [
      whole,
      ...this.checks.map((check) => async (certificate: Certificate) => {
        await check((await this.upward(certificate, length)).certificates);
      }),
    ];
  }

  private async search(child: Certificate, length: number): Promise<FoundPath> {
    if (length === 1) return { certificates: [child], failure: undefined };
    // A self-issued certificate stands in the place of the root and is no candidate.
    const candidates = named(this.pool, child.issuer).filter((candidate) => !isSelfIssued(candidate));
    const linked = (candidate: Certificate): Promise<void> => requireLink(child, candidate);
    const issuer = await bestCandidate(candidates, linked, ...this.judges(length - 1));
    const failure = issuer
      ? await refusalOf(() => linked(issuer))
      : refusal("endorsement", "gpu-issuer-missing", issuerName(child), "none");
    if (!issuer || failure) return { certificates: [child], failure: failure ?? undefined };
    const path = await this.upward(issuer, length - 1);
    return { ...path, certificates: [child, ...path.certificates] };
  }
}

const isSelfIssued = ({ issuer, subject }: Certificate): boolean => equal(issuer, subject);

/** The leaves whose key signed the report; if none did, the first, so that the signature is what fails. */
async function findLeaves(report: ParsedGpuReport, pool: Endorsements): Promise<readonly Certificate[]> {
  const leaves = pool.certificates.filter(isLeaf).slice(0, MAX_LEAVES);
  const holds = await Promise.all(leaves.map((leaf) => reportSignedBy(report, leaf)));
  return holds.includes(true) ? leaves.filter((_, i) => holds[i]) : leaves.slice(0, 1);
}

/** True if the report's signature verifies under this certificate's key; a key of another kind signed nothing. */
export async function reportSignedBy({ signature, signedBytes }: ParsedGpuReport, leaf: Certificate): Promise<boolean> {
  const holds = await refusalOf(async () => {
    await requireP384(leaf);
    return ecdsaHolds(leaf.spki, "SHA-384", signature, signedBytes);
  });
  return holds === true;
}

/** The first of these that is not refused; else the first refusal, or `otherwise` when there are none. */
async function firstThat<T>(
  candidates: readonly T[],
  judge: (candidate: T) => Promise<void>,
  otherwise: AttestError,
): Promise<T> {
  let first: AttestError | undefined;
  for (const candidate of candidates) {
    const refused = await refusalOf(() => judge(candidate));
    if (!refused) return candidate;
    first ??= refused;
  }
  throw first ?? otherwise;
}

// -- judging

/** Require that `issuer` issued `child`, and is a CA with a P-384 key. */
export async function requireLink(child: Certificate, issuer: Certificate): Promise<void> {
  await requireIssued(withoutFirmwareId(child), issuer, ECDSA_SHA384);
  requireCa(issuer);
  await requireP384(issuer);
}

/**
 * Return the pinned root, of these, that issued the last certificate of a path.
 *
 * Refuses with `root-not-trusted`, `simulated-root-refused`, `gpu-root-missing`, or by the rules of chains.
 *
 * @param presented certificates that came in its place: one whose key is pinned counts where the anchor holds no key.
 */
export async function findRoot(
  roots: readonly VendorRoot[],
  last: Certificate,
  presented: readonly Certificate[],
  anchors: TrustAnchors,
): Promise<Root> {
  const pins = await Promise.all(presented.slice(0, MAX_CANDIDATES).map(spkiPin));
  const own = anchorsOf(anchors, roots);
  const candidates = own.flatMap((anchor): Root[] => {
    const { held } = anchor;
    if (held) return equal(held.subject, last.issuer) ? [{ anchor, issuer: held }] : [];
    return presented.filter((_, position) => pins[position] === anchor.pin).map((issuer) => ({ anchor, issuer }));
  });
  const expected = `a pinned ${issuerName(last)}`;
  const code = pins.some((pin) => isSimulatedPin(roots, pin)) ? "simulated-root-refused" : "root-not-trusted";
  const missing = !pins.length && own.some(({ held }) => !held);
  const otherwise = missing
    ? refusal("endorsement", "gpu-root-missing", expected, "none")
    : refusal("chain", code, expected, `${pins[0]}`);
  return firstThat(
    candidates,
    async ({ anchor, issuer }) => {
      await requireIssued(last, issuer, ECDSA_SHA384);
      if (!anchor.held) await requireLink(issuer as Certificate, issuer as Certificate); // one that was presented
    },
    otherwise,
  );
}

const issuerName = ({ issuerCommonName }: Certificate): string => issuerCommonName ?? "no CN";
