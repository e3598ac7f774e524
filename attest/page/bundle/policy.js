import{a,b,c,d}from"./chunk-V7XHZVCH.js";import"./chunk-4KWTLRHW.js";import"./chunk-XAMFHFPV.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
