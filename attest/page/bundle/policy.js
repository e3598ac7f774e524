import{a,b,c,d}from"./chunk-4PCPIE6P.js";import"./chunk-SNVMHFJ6.js";import"./chunk-LNEQLFZB.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
