import{a,b,c,d}from"./chunk-CGBOMHR7.js";import"./chunk-SNVMHFJ6.js";import"./chunk-LNEQLFZB.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
