import type { ProvenanceWords } from "../en/provenance";

export const provenance: ProvenanceWords = {
  sentence: (document, repository, workflow, index, moment) =>
    `${document}: aus ${repository} gebaut von ${workflow}, Eintrag ${index} eines öffentlichen Logs am ${moment}.`,
  unstated: "nicht genannten Quellen",
  release: "Release",
  commit: "Commit",
  builder: "Erbauer",
  workflow: "Unterschrieben von",
  issuer: "Identität bestätigt von",
  log: "Log",
  entry: "Eintrag",
  root: "SHA-256 des Vertrauensankers",
};
