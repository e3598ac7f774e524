// Builds the bundles: node build.mjs [FOLDER]; by default into ../attest/page/bundle. The same sources give the same bytes.

import { build } from "esbuild";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { minify } from "terser";

const here = dirname(fileURLToPath(import.meta.url));
const folder = resolve(process.argv[2] ?? join(here, "../attest/page/bundle"));
const compiler = join(here, "node_modules/typescript/bin/tsc");

/** Entry points; what several of them need, or what is fetched only when it is needed, goes to files of their own. */
const entryPoints = {
  badge: "src/badge.ts",
  channel: "src/channel/index.ts",
  page: "src/ui/main.ts",
  policy: "src/policy/index.ts",
  style: "src/ui/style.css",
  verifier: "src/verifier/index.ts",
};

// What an earlier build left behind; the package's Python file stays.
mkdirSync(folder, { recursive: true });
for (const name of readdirSync(folder)) if (/\.(?:js|d\.ts|json|css|html)$/.test(name)) rmSync(join(folder, name));

await build({
  absWorkingDir: here,
  entryPoints,
  outdir: folder,
  bundle: true,
  charset: "utf8",
  chunkNames: "[name]-[hash]",
  format: "esm",
  legalComments: "none",
  minify: true,
  splitting: true,
  target: "es2022",
});

// A second pass makes everything 4 % smaller once it is compressed: it moves values to where they are used, and unfolds what is called once.
for (const name of readdirSync(folder).filter((name) => name.endsWith(".js"))) {
  const { code } = await minify(readFileSync(join(folder, name), "utf8"), {
    module: true,
    ecma: 2020,
    compress: { passes: 3 },
  });
  writeFileSync(join(folder, name), code);
}

// The public types stand in one file that imports nothing, so its declarations are the library's.
const scratch = mkdtempSync(join(tmpdir(), "page-types-"));
try {
  const settings = [
    "--project",
    here,
    "--noEmit",
    "false",
    "--declaration",
    "--emitDeclarationOnly",
    "--outDir",
    scratch,
  ];
  execFileSync(process.execPath, [compiler, ...settings], { stdio: "inherit" });
  writeFileSync(join(folder, "verifier.d.ts"), readFileSync(join(scratch, "verifier/api.d.ts")));
} finally {
  rmSync(scratch, { recursive: true });
}

// All modules are named with their digests before the first of them runs: none is fetched later, and none is another.
const integrity = (name) =>
  `sha256-${createHash("sha256")
    .update(readFileSync(join(folder, name)))
    .digest("base64")}`;
const modules = readdirSync(folder)
  .filter((name) => name.endsWith(".js") && !["badge.js", "page.js"].includes(name))
  .sort();
// WebKit looks at no digest of what it fetches ahead, but at one in an import map; the page's policy names that map by its own.
const map = JSON.stringify({ integrity: Object.fromEntries(modules.map((name) => [`./${name}`, integrity(name)])) });
const head = [
  `<script type="importmap">${map}</script>`,
  `<link rel="stylesheet" href="style.css" integrity="${integrity("style.css")}">`,
  ...modules.map((name) => `<link rel="modulepreload" href="${name}" integrity="${integrity(name)}">`),
  `<script type="module" src="page.js" integrity="${integrity("page.js")}"></script>`,
];
const html = readFileSync(join(here, "src/ui/index.html"), "utf8");
writeFileSync(
  join(folder, "index.html"),
  html.replace("<!--files-->", () => head.join("\n")),
);

const names = readdirSync(folder)
  .filter((name) => name !== "manifest.json" && !name.endsWith(".py"))
  .sort();
const digests = names.map((name) => [
  name,
  createHash("sha256")
    .update(readFileSync(join(folder, name)))
    .digest("hex"),
]);
writeFileSync(
  join(folder, "manifest.json"),
  `${JSON.stringify({ schema: "attest.page/1", sha256: Object.fromEntries(digests) }, null, 2)}\n`,
);
