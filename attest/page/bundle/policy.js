import{a,b,c,d}from"./chunk-22KD23RA.js";import"./chunk-7L7FZJWD.js";import"./chunk-SSAFRVP5.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
