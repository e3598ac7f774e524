import"./chunk-4KWTLRHW.js";import{N as a}from"./chunk-ASGREP4R.js";import"./chunk-V7RYLTLO.js";import"./chunk-G4Z7CLLM.js";export{a as verifyEvidence};
