/** The rows of what a machine reports, and the choices of a person. */

/** Choice for a row: exactly this, or this and newer ones. */
export type Choice = "exact" | "newer";

/** A row of the table "reported now, your policy, result". */
export interface Row {
  /** Name of a choice; the check's id for a row that only a check refers to. */
  readonly id: string;
  /** A name of what the row is about, where its id alone does not say it: a product, or an item of evidence. */
  readonly subject: string;
  readonly reported: string;
  /** The same as it is, to compare with what was accepted before. */
  readonly value: unknown;
  /** Empty where no policy demands anything. */
  readonly demanded: string;
  readonly outcome: "pass" | "fail" | "warning" | "not evaluated";
  /** Permitted choices. */
  readonly kinds: readonly Choice[];
}

export type Choices = Readonly<Record<string, Choice>>;
