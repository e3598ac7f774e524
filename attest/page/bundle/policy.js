import{a,b,c,d}from"./chunk-GU3S7AX4.js";import"./chunk-V7RYLTLO.js";import"./chunk-G4Z7CLLM.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
