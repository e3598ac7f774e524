/** Who built a document of reference values. */

export const provenance = {
  sentence: (document: string, repository: string, workflow: string, index: number, moment: string) =>
    `${document}: built from ${repository} by ${workflow}, entry ${index} of a public log on ${moment}.`,
  unstated: "sources that are not stated",
  release: "Release",
  commit: "Commit",
  builder: "Builder",
  workflow: "Signed by",
  issuer: "Identity confirmed by",
  log: "Log",
  entry: "Entry",
  root: "SHA-256 of the trusted root",
};

export type ProvenanceWords = typeof provenance;
