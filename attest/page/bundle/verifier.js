import"./chunk-4KWTLRHW.js";import{da as a}from"./chunk-XAMFHFPV.js";export{a as verifyEvidence};
