import{a,b,c,d}from"./chunk-FRLJJR67.js";import"./chunk-4KWTLRHW.js";import"./chunk-U5223AB4.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
