import"./chunk-4KWTLRHW.js";import{M as a}from"./chunk-KWY6BJ4Y.js";import"./chunk-V7RYLTLO.js";import"./chunk-G4Z7CLLM.js";export{a as verifyEvidence};
