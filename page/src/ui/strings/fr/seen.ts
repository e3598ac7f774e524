/** What is seen of the page after the first verdict before a person acts: the decision, the policy, the documents. */

import type { Seen } from "../en/seen";

export const seen: Seen = {
  obstacles: {
    checking: "La machine est d’abord vérifiée.",
    unknown: "Vous n’avez pas encore accepté cette machine.",
    unreachable: "Le service ne répond pas. Ce que vous avez choisi est gardé.",
    stopped: "Le service est arrêté : rien n’est envoyé.",
    refused: "La machine a été refusée : rien n’est envoyé.",
    keyless: "Il n’y a pas de clé de la machine pour sceller.",
    unready: "Le service n’est pas prêt.",
    none: "Vous pouvez demander et envoyer.",
  },
  accept: "Accepter cette machine…",
  acceptChange: "Accepter le changement…",
  each: (count) => `Valeurs : annoncées et acceptées (${count})`,
  /** Limits of documents, as the service states them. */
  stated: {
    kinds: (suffixes) => `Le service lit ${suffixes}.`,
    size: (size) => `Un document a au plus ${size}.`,
    count: (count) => `Il garde au plus ${count} documents pour vous.`,
    scan: "Un scan a d’abord besoin de texte : passez-le par une reconnaissance de texte (OCR).",
  },
  /** The list of documents, before it is read. */
  documentList: {
    title: "Vos documents",
    why:
      "Ils se trouvent par un jeton d’accès que seul ce navigateur possède. Si vous videz ce navigateur, vous le " +
      "perdez, et vos documents avec lui : enregistrez le jeton, ou gardez les fichiers.",
    unread: "La liste est lue sur la machine dès que vous l’acceptez.",
    later: "La liste est lue auprès de la machine dès que vous y venez.",
    none: "Le service n’a aucun document de vous.",
    removeAll: "Tout supprimer",
    token: "Jeton d’accès",
  },
  inForce: {
    none: "Vous n’avez encore rien accepté.",
    name: "Nom",
    version: "Version",
    digest: "SHA-256",
    author: "Faite par",
    here: (date) => `vous, dans ce navigateur, le ${date}`,
    file: (names, date) => `le fichier ${names}, chargé par vous le ${date}`,
    link: (date) => `un lien que vous avez ouvert le ${date}`,
    unknown: "quelqu’un qui n’a pas laissé de nom",
  },
  chain: {
    title: "La chaîne de la preuve : de la racine du fabricant à la clé",
    root: "racine, partie de cette page",
    simulatedRoot: "racine du simulateur",
    proof: "Preuve de la machine",
    fresh: "pour le nombre aléatoire de la page",
    key: "Clé de vos messages",
    belongs: "appartient à cette machine",
    unfinished: "Rien à dessiner : la preuve a été refusée, ou n’est pas encore venue.",
  },
  trial: {
    offer: "Cette machine est simulée. Vous pouvez essayer ce que fait la page quand une machine change :",
    made: "La machine a changé. La page la refuse au prochain contrôle et n’envoie rien.",
    changes: {
      "older-firmware": "Installer un micrologiciel plus ancien",
      "other-gpu": "Remplacer le GPU",
    },
    back: "Remettre comme avant",
  },
};
