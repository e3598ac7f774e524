import type { ProvenanceWords } from "../en/provenance";

export const provenance: ProvenanceWords = {
  sentence: (document, repository, workflow, index, moment) =>
    `${document} : construit de ${repository} par ${workflow}, entrée ${index} d’un journal public le ${moment}.`,
  unstated: "sources non indiquées",
  release: "Version",
  commit: "Commit",
  builder: "Constructeur",
  workflow: "Signé par",
  issuer: "Identité confirmée par",
  log: "Journal",
  entry: "Entrée",
  root: "SHA-256 de la racine de confiance",
};
