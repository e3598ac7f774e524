/** In-toto statements whose predicate is SLSA provenance, as `attest/provenance/statement.py`. */

import type { Bytes } from "../bytes";
import { unhexed } from "../encoding";
import { need } from "../errors";
import { type JsonValue, isObject } from "../json";
import { parsed } from "./forms";

const STATEMENTS = ["https://in-toto.io/Statement/v0.1", "https://in-toto.io/Statement/v1"];
const SLSA_0_2 = "https://slsa.dev/provenance/v0.2";
const SLSA_1 = "https://slsa.dev/provenance/v1";
const DEFINITION = ["predicate", "buildDefinition"];
const WORKFLOW = [...DEFINITION, "externalParameters", "workflow"];
const MOST_CHARACTERS = 2048;
const UNPRINTABLE = /(?! )[\p{C}\p{Z}]/u;

/** Statement of a builder about the document that it made. */
export interface Statement {
  /** SHA-256 of the document, as hex. */
  readonly subject: string;
  readonly name: string;
  readonly builder: string;
  readonly repository: string | undefined;
  readonly release: string | undefined;
  readonly commit: string | undefined;
}

interface Source {
  readonly repository?: string | undefined;
  readonly release?: string | undefined;
  readonly commit?: string | undefined;
}

type Path = readonly (string | number)[];

/** Read the payload of an envelope: `provenance-statement-invalid`, `provenance-unsupported` or `json-invalid`. */
export function parseStatement(payload: Bytes): Statement {
  const statement = parsed(payload, "the statement");
  requireKind(statement, "_type", STATEMENTS);
  const isNew = requireKind(statement, "predicateType", [SLSA_0_2, SLSA_1]) === SLSA_1;
  const source = isNew ? newSource(statement) : gitSource(at(statement, ["predicate", "invocation", "configSource"]));
  const subject = subjectOf(statement);
  const name = requiredText(statement, ["subject", 0, "name"]);
  const builder = requiredText(
    statement,
    isNew ? ["predicate", "runDetails", "builder", "id"] : ["predicate", "builder", "id"],
  );
  const { repository, release, commit } = source;
  return { subject, name, builder, repository, release, commit };
}

function requireKind(statement: JsonValue, field: string, known: readonly string[]): string {
  const found = requiredText(statement, [field]);
  need(known.includes(found), "unsupported", "provenance-unsupported", known, found, { field });
  return found;
}

function subjectOf(statement: JsonValue): string {
  const subjects = at(statement, ["subject"]);
  requireValid(Array.isArray(subjects) && subjects.length === 1, ["subject"], "exactly one subject");
  const path = ["subject", 0, "digest", "sha256"];
  const digest = requiredText(statement, path);
  requireValid(unhexed(digest)?.length === 32, path, "64 hexadecimal digits");
  return digest.toLowerCase();
}

/** The sources of SLSA v1: those of GitHub's workflow, or else the first Git repository among the inputs. */
function newSource(statement: JsonValue): Source {
  const inputs = at(statement, [...DEFINITION, "resolvedDependencies"]);
  const resolved = firstSource(Array.isArray(inputs) ? inputs : []);
  const repository = textAt(statement, [...WORKFLOW, "repository"]);
  if (repository === undefined) return resolved;
  const commit = resolved.repository === repository ? resolved.commit : undefined;
  return { repository, release: textAt(statement, [...WORKFLOW, "ref"]), commit };
}

function firstSource(inputs: readonly JsonValue[]): Source {
  for (const input of inputs) {
    const found = gitSource(input);
    if (found.repository) return found;
  }
  return {};
}

/** A resource whose address has the form `git+https://host/path@ref`. */
function gitSource(resource: JsonValue | undefined): Source {
  const uri = textAt(resource, ["uri"]);
  if (!uri?.startsWith("git+")) return {};
  const [repository = "", ...rest] = uri.slice(4).split("@");
  const release = rest.join("@");
  const commit = textAt(resource, ["digest", "gitCommit"]) ?? textAt(resource, ["digest", "sha1"]);
  return { repository, release: release === "" ? undefined : release, commit };
}

// -- values at paths

function at(value: JsonValue | undefined, path: Path): JsonValue | undefined {
  let found = value;
  for (const step of path) {
    if (isObject(found) && typeof step === "string") found = found[step];
    else found = Array.isArray(found) && typeof step === "number" ? found[step] : undefined;
  }
  return found ?? undefined;
}

/** The text at a path; undefined if there is nothing. */
function textAt(value: JsonValue | undefined, path: Path): string | undefined {
  const found = at(value, path);
  if (found === undefined) return undefined;
  const isText = typeof found === "string" && found !== "" && !UNPRINTABLE.test(found);
  requireValid(
    isText && Array.from(found).length <= MOST_CHARACTERS,
    path,
    `printable text of 1 to ${MOST_CHARACTERS} characters`,
  );
  return found;
}

function requiredText(value: JsonValue, path: Path): string {
  const found = textAt(value, path);
  requireValid(found !== undefined, path, "text");
  return found;
}

function requireValid(holds: unknown, path: Path, expected: string): asserts holds {
  need(holds, "malformed", "provenance-statement-invalid", expected, "something else", { field: path.join(".") });
}
