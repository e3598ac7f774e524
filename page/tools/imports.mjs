// Fails where modules import each other in a circle, types and imports on demand included: node tools/imports.mjs

import { parseCircular, parseDependencyTree, prettyCircular } from "dpdm";

const tree = await parseDependencyTree("src/**/*.ts", {
  context: new URL("..", import.meta.url).pathname,
  transform: false,
});
const circles = parseCircular(tree);
if (!Object.keys(tree).length) throw new Error("no module was found");
if (circles.length) {
  process.stderr.write(`error: modules import each other in a circle\n${prettyCircular(circles)}\n`);
  process.exitCode = 1;
}
