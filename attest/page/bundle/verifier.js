import"./chunk-4KWTLRHW.js";import{y as a}from"./chunk-LOD7TGYY.js";import"./chunk-SNVMHFJ6.js";import"./chunk-LNEQLFZB.js";export{a as verifyEvidence};
