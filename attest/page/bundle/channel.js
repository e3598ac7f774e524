import{a,b,c,d,e,f}from"./chunk-N2XWGHGX.js";import"./chunk-BF5GGAM3.js";export{f as Channel,a as KEM_HYBRID,b as KEM_X25519,d as askForKeys,e as recordOf,c as spokenKems};
