import{a,b,c,d,e,f}from"./chunk-PSIWKET5.js";import"./chunk-6NLJTLEE.js";export{f as Channel,a as KEM_HYBRID,b as KEM_X25519,d as askForKeys,e as recordOf,c as spokenKems};
