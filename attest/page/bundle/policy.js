import{a,b,c,d}from"./chunk-XB4FHANJ.js";import"./chunk-4KWTLRHW.js";import"./chunk-2J5TJ2PF.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
