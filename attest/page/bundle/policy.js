import{a,b,c,d}from"./chunk-5LM3QN47.js";import"./chunk-4KWTLRHW.js";import"./chunk-COJSV6U7.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
