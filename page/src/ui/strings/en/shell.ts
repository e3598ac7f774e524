/** Names and labels of the document's own elements, and what is said before anything is known. */

export const shell = {
  /** Names and labels of the document's own elements. */
  page: {
    title: "Who are you talking to?",
    simulated: "SIMULATED.",
    simulatedWhy: "This machine is software, and everybody has its keys: it proves nothing about hardware.",
    again: "Check again",
    ask: "Ask your documents",
    question: "Question",
    send: "Ask",
    documents: "Documents: choose them, or drop them anywhere on this page",
    policy: "Your policy",
    save: "Save policy",
    share: "Share policy",
    forget: "Forget policy",
    load: "Load policy",
    checked: "What was checked",
    allChecks: "Every check",
    claims: "Raw claims",
    certificates: "Certificate chains",
    repeat: "Repeat the check elsewhere",
    repeatHow: "Save the evidence and your policy, and run this on any computer:",
    saveEvidence: "Save evidence",
    proves: "What this proves, and what it does not",
    notProved:
      "It does not prove that the software is good: only that it is the one that was accepted. It does not hide " +
      "that you use the service, when, and roughly how much you send. It is as trustworthy as this page.",
    warning: "Warning",
    state: "State",
    facts: "Five facts",
    notShown: "What this does not show",
    history: "What this browser accepted",
    log: "Questions and answers",
    uploads: "Uploads",
    command: "Command",
  },
  intro: (service: string) =>
    `This page asks ${service} to prove what it is, and checks the proof here, in your browser. ` +
    "Nothing that you type or choose is sent until you accept the machine.",
  own: "The page came from your own computer, by attest page: the service cannot change what it shows.",
  theirs: (service: string) =>
    "The page came from the service itself, which could send you another page that only claims to check. " +
    `For certainty run attest page ${service} on your own computer.`,
  loading: "The rest of this page is being loaded…",
  unfinished: "A part of this page could not be loaded, or was changed on the way. Nothing can be accepted or sent.",
  reload: "Load the page again",
};

export type Shell = typeof shell;
