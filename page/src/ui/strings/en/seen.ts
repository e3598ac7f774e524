/** What is seen of the page after the first verdict before a person acts: the decision, the policy, the documents. */

export const seen = {
  obstacles: {
    checking: "The machine is being checked first.",
    unknown: "You have not accepted this machine yet.",
    unreachable: "The service gives no answer now. What you chose is kept.",
    stopped: "The service has stopped: nothing is sent.",
    refused: "The machine was refused: nothing is sent.",
    keyless: "There is no key of the machine that could be sealed to.",
    unready: "The service is not ready.",
    none: "You may ask and upload.",
  },
  accept: "Accept this machine…",
  acceptChange: "Accept the change…",
  each: (count: number) => `Values: reported and accepted (${count})`,
  /** Limits of documents, as the service states them. */
  stated: {
    kinds: (suffixes: string) => `The service reads ${suffixes}.`,
    size: (size: string) => `A document has at most ${size}.`,
    count: (count: number) => `It keeps at most ${count} documents for you.`,
    scan: "A scan needs text first: run text recognition (OCR) over it.",
  },
  /** The list of documents, before it is read. */
  documentList: {
    title: "Your documents",
    why:
      "They are found by an access token that only this browser has. If you clear this browser, " +
      "you lose it and with it your documents: save the token, or keep the files.",
    unread: "The list is read from the machine once you accept it.",
    later: "The list is read from the machine once you come to it.",
    none: "The service has no documents of yours.",
    removeAll: "Delete all",
    token: "Access token",
  },
  inForce: {
    none: "You have accepted nothing yet.",
    name: "Name",
    version: "Version",
    digest: "SHA-256",
    author: "Made by",
    here: (date: string) => `you, in this browser, on ${date}`,
    file: (names: string, date: string) => `the file ${names}, loaded by you on ${date}`,
    link: (date: string) => `a link that you opened on ${date}`,
    unknown: "somebody who left no name",
  },
  chain: {
    title: "The chain of proof: from the maker's root to the key",
    root: "root, built into this page",
    simulatedRoot: "root of the simulator",
    proof: "Proof of this machine",
    fresh: "for this page's random number",
    key: "Key of your messages",
    belongs: "belongs to this machine",
    unfinished: "Nothing to draw: the proof was refused, or none came yet.",
  },
  trial: {
    offer: "This machine is simulated, so you can try what the page does when a machine changes:",
    made: "The machine has changed. The page refuses it at its next look and sends nothing.",
    changes: { "older-firmware": "Put older firmware on the machine", "other-gpu": "Exchange the GPU" } as Readonly<
      Record<string, string>
    >,
    back: "Put it back as it was",
  },
};

export type Seen = typeof seen;
