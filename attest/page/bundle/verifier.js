import"./chunk-4KWTLRHW.js";import{da as a}from"./chunk-LCWFHUMW.js";export{a as verifyEvidence};
