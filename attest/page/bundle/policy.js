import{a,b,c,d}from"./chunk-F5NSFXSZ.js";import"./chunk-7O7PCXNB.js";import"./chunk-BGFEXY33.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
