import{a,b,c,d,e,f}from"./chunk-7NSRH3KG.js";import"./chunk-Y5KJJHR7.js";export{f as Channel,a as KEM_HYBRID,b as KEM_X25519,d as askForKeys,e as recordOf,c as spokenKems};
