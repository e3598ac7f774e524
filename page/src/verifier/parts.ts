/** Code that is fetched on demand. */

/** A part could not be fetched, or is not the one whose digest the page names. Nothing was verified. */
export class PartError extends Error {
  override readonly name = "PartError";
}

/** Await a part that is being fetched. */
export async function part<T>(fetched: Promise<T>): Promise<T> {
  try {
    return await fetched;
  } catch (error) {
    throw new PartError("a part of the verifier could not be fetched", { cause: error });
  }
}
