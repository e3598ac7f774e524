/** Tolerances of the sections of a policy, which verification needs. */

/** Tolerances that verification needs, with the author's reasons. */
export interface Tolerated {
  readonly waivedMeasurements: Readonly<Record<string, string>>;
  readonly acceptedOpaque: Readonly<Record<string, string>>;
  readonly heldRimSigners: string | undefined;
}

export const NOTHING_TOLERATED: Tolerated = { waivedMeasurements: {}, acceptedOpaque: {}, heldRimSigners: undefined };

/** Told what a section tolerates, and where it stands. */
export type Tell<T = Tolerated> = (path: string, tolerated: T) => void;
