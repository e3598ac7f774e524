import{a,b,c,d}from"./chunk-SPYHUPGW.js";import"./chunk-4KWTLRHW.js";import"./chunk-UPJOYFL2.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
