/**
 * The runner of numbered procedures, as `attest.evidence.procedure`.
 *
 * A procedure is one straight function. It takes each step of its table in order, keeps what the step found in a
 * constant, and the step tells what it expected and what it got:
 *
 *     const procedure = new Procedure(SNP_STEPS);
 *     const leaf = await procedure.step("leaf", (step) => {
 *       …
 *       step.tell("a VCEK with AMD's extensions", leaf.productName);
 *       return leaf;
 *     });
 *     …
 *     const checks = procedure.finish();
 *
 * There are two ways to take a step:
 *
 * - `step`, for one that all later ones stand on: its refusal ends the procedure.
 * - `attempt`, for one that others can do without: its refusal is held back, and `finish` throws the worst one. What it
 *   finds may be undefined, and a later step that cannot do without it says so (`need`).
 *
 * A refusal carries the checks of all steps; those that were not reached are not evaluated.
 */

import { type Check, type Outcome, type Unchecked, check } from "./checks";
import { AttestError, need, refusalOf } from "./errors";
import { type Shown, shown } from "./shown";

/** Every step of a procedure, in order: the name in the code, and the id and clause of its check. */
export type Steps = Readonly<Record<string, readonly [id: string, clause: string]>>;

/** Texts of a success: the demand, the finding, and the outcome if it is not `pass`. */
export type Told = readonly [expected: Shown, got?: Shown, outcome?: Outcome];

/** A step that is being taken. */
export interface OpenStep {
  /** Say what the step expected and what it got, once nothing in it can be refused any more. */
  readonly tell: (...told: Told) => void;
  /** Return what an earlier step found; without it, end this step as not evaluated, for the reason given. */
  readonly need: <T>(found: T | undefined, otherwise: string) => T;
}

/** A step cannot be evaluated; the attempt that throws it catches it. */
class Lacking extends Error {}

/** Taken of steps that judge pieces which do not stand on each other, or of one chain of steps. */
export interface ProcedureOptions {
  /** Stands before the id of each check, for steps that several kinds of evidence share. */
  readonly prefix?: string;
  /**
   * An attempt holds back every refusal, and a later step still passes. Otherwise it holds back only that an
   * endorsement is missing or stale, so that evidence that is plainly false is called false; and after that no step
   * counts as passed.
   */
  readonly isIndependent?: boolean;
}

/** One run of a procedure: the check of each step, and the refusals that were held back. */
export class Procedure<S extends Steps> {
  private readonly made = new Map<string, Check>();
  private readonly held: AttestError[] = [];
  private readonly prefix: string;
  private readonly isIndependent: boolean;

  constructor(
    private readonly steps: S,
    { prefix = "", isIndependent = false }: ProcedureOptions = {},
  ) {
    this.prefix = prefix;
    this.isIndependent = isIndependent;
  }

  /** Take a step whose refusal ends the procedure. */
  async step<T>(name: keyof S & string, run: (step: OpenStep) => T | Promise<T>): Promise<T> {
    const found = await refusalOf(() => run(this.open(name)));
    if (!(found instanceof AttestError)) return found;
    this.refuse(name, found);
    throw this.refusal(found);
  }

  /** Take a step whose refusal is held back until the end; it then finds nothing. */
  async attempt<T>(name: keyof S & string, run: (step: OpenStep) => T | Promise<T>): Promise<T | undefined> {
    try {
      return await run(this.open(name));
    } catch (error) {
      if (error instanceof Lacking) this.record(name, "not evaluated", "", error.message);
      else if (error instanceof AttestError) this.hold(name, error);
      else throw error;
      return undefined;
    }
  }

  /** Return the check of every step that was taken or not reached; or throw the worst refusal that was held back. */
  finish(): readonly Check[] {
    const worst = worstOf(this.held);
    if (worst) throw this.refusal(worst);
    return this.checks();
  }

  /** Return the check of every step, and what was held back, for a caller that weighs several procedures. */
  outcome(): { readonly checks: readonly Check[]; readonly failures: readonly AttestError[] } {
    return { checks: this.checks(), failures: this.held };
  }

  /** Return what an attempt found, which is there once nothing was refused; throws as `finish` does. */
  require<T>(found: T | undefined): T {
    this.finish();
    if (found === undefined) throw new TypeError("a step found nothing and refused nothing");
    return found;
  }

  /** Return a refusal with the checks of all steps. */
  refusal(failure: AttestError): AttestError {
    failure.checks = this.checks();
    return failure;
  }

  private open(name: string): OpenStep {
    return {
      tell: (expected, got, outcome = "pass") => {
        this.record(name, outcome, expected, got);
      },
      need: (found, otherwise) => {
        if (found === undefined) throw new Lacking(otherwise);
        return found;
      },
    };
  }

  private record(name: string, outcome: Outcome, expected: Shown, got: Shown): void {
    if (!this.isIndependent && this.held.length && outcome !== "fail") return;
    this.made.set(name, check(this.idOf(name), outcome, expected, got, this.clauseOf(name)));
  }

  private refuse(name: string, failure: AttestError): void {
    const { facts } = failure;
    facts.check = this.idOf(name);
    facts.clause ??= this.clauseOf(name);
    this.record(name, "fail", facts.expected, facts.got ?? failure.message);
  }

  private hold(name: string, failure: AttestError): void {
    this.refuse(name, failure);
    this.held.push(failure);
    // A refusal ends the procedure even if something was missing before.
    if (!this.isIndependent && failure.kind !== "endorsement") throw this.refusal(failure);
  }

  private checks(): readonly Check[] {
    const unreached = (name: string): Check =>
      check(this.idOf(name), "not evaluated", "", "an earlier check failed", this.clauseOf(name));
    return Object.keys(this.steps).map((name) => this.made.get(name) ?? unreached(name));
  }

  private idOf(name: string): string {
    return `${this.prefix}${this.steps[name]?.[0] ?? ""}`;
  }

  private clauseOf(name: string): string {
    return this.steps[name]?.[1] ?? "";
  }
}

/** Return the refusal with the lowest exit code, the first of them; undefined of none. */
export function worstOf(refused: readonly AttestError[]): AttestError | undefined {
  return [...refused].sort((a, b) => a.exitCode - b.exitCode)[0];
}

/** Return the reasons of these decisions, as a check tells them. */
export const reasonsOf = (decisions: readonly Unchecked[]): string =>
  `unchecked: ${decisions.map(({ reason }) => reason).join("; ")}`;

/**
 * Return the decisions by which something may be missing or stale, those of the first name that has any; throw the
 * failure when it says anything else, or when nothing of these names is left unchecked.
 */
export function tolerated(
  failure: AttestError,
  unchecked: readonly Unchecked[],
  ...names: readonly Unchecked["check"][]
): readonly Unchecked[] {
  for (const name of names) {
    const decisions = unchecked.filter((decision) => decision.check === name);
    if (decisions.length && failure.kind === "endorsement") return decisions;
  }
  throw failure;
}

/** Require two to be the same, and tell them. */
export function same(code: string, field: string, expected: Shown, got: Shown): Told {
  need(shown(expected) === shown(got), "binding", code, expected, got, { field });
  return [expected, got];
}
