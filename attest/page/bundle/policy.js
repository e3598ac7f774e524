import{a,b,c,d}from"./chunk-32XBX75Q.js";import"./chunk-SWA7TKKI.js";import"./chunk-6NLJTLEE.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
