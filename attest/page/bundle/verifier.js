import"./chunk-4KWTLRHW.js";import{y as a}from"./chunk-A3QLGJS7.js";import"./chunk-7L7FZJWD.js";import"./chunk-SSAFRVP5.js";export{a as verifyEvidence};
