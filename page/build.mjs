// Builds the bundles: node build.mjs [FOLDER]; by default into ../attest/page/bundle.
// The same sources give the same bytes.

import { build, transform } from "esbuild";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { minify } from "terser";

const here = dirname(fileURLToPath(import.meta.url));
const folder = resolve(process.argv[2] ?? join(here, "../attest/page/bundle"));
const compiler = join(here, "node_modules/typescript/bin/tsc");

/** Entry points; code that several of them need, or that is fetched on demand, goes to files of its own. */
const entryPoints = {
  badge: "src/badge.ts",
  channel: "src/channel/index.ts",
  evidence: "src/ui/alone/main.ts",
  page: "src/ui/main.ts",
  policy: "src/policy/index.ts",
  style: "src/ui/style.css",
  verifier: "src/verifier/index.ts",
};

/**
 * Modules that are bundled into one file: every module that `users` fits imports all that `modules` names. Otherwise
 * each set of files that share something would have a file of its own for it, and a page a digest for each of them.
 */
const TOGETHER = [
  { users: /\.ts$/, modules: "src/verifier/shared.ts" },
  {
    users: /verifier\/(?:files|vendor_documents|(attachment|azure|dstack|intel|providers)\/\1)\.ts$/,
    modules: "src/verifier/later.ts",
  },
  { users: /src\/channel\/(?:record|sending)\.ts$/, modules: "src/channel/shared.ts" },
  { users: /src\/(?:ui\/.*|badge)\.ts$/, modules: "src/ui/shared.ts" },
  {
    users: /src\/ui\/(?:documents|policy_actions|question|trust|view|alone\/\w+_view)\.ts$/,
    modules: "src/ui/beside.ts",
  },
  {
    users: /src\/ui\/(?:documents|policy_actions|question|trust)\.ts$/,
    modules: "src/ui/later.ts",
  },
  { users: /src\/(?:policy\/.*|ui\/.*|badge)\.ts$/, modules: "src/policy/beginning.ts" },
  {
    users: /src\/policy\/(?:draft|index|provenance|reference_documents|devices|other_cpus)\.ts$/,
    modules: "src/policy/shared.ts",
  },
];

const together = {
  name: "together",
  setup({ onLoad }) {
    onLoad({ filter: /src\/.*\.ts$/ }, ({ path }) => {
      // Words need no code.
      if (path.includes("/strings/")) return undefined;
      const named = TOGETHER.filter(({ users }) => users.test(path)).map(({ modules }) => join(here, modules));
      const imports = named
        .filter((modules) => modules !== path)
        .map((modules) => `import ${JSON.stringify(modules)};`);
      return { contents: [...imports, readFileSync(path, "utf8")].join("\n"), loader: "ts" };
    });
  },
};

/** A style that a script imports is a text in it. */
const styleText = {
  name: "style-text",
  setup({ onLoad }) {
    onLoad({ filter: /src\/.*later\.css$/ }, async ({ path }) => {
      const { code } = await transform(readFileSync(path, "utf8"), { loader: "css", minify: true });
      return { contents: code, loader: "text" };
    });
  },
};

const read = (name) => readFileSync(join(folder, name));
const filesLike = (pattern) =>
  readdirSync(folder)
    .filter((name) => pattern.test(name))
    .sort();
const digestOf = (name, encoding) => createHash("sha256").update(read(name)).digest(encoding);
const integrityOf = (name) => `sha256-${digestOf(name, "base64")}`;

/** Remove an earlier build; the package's Python file stays. */
function clear() {
  mkdirSync(folder, { recursive: true });
  for (const name of filesLike(/\.(?:js|d\.ts|json|css|html)$/)) rmSync(join(folder, name));
}

/** Bundle the sources, and return which files each file imports at once, and which at once or later. */
async function bundle() {
  const { metafile } = await build({
    absWorkingDir: here,
    alias: { "firmware-table": join(here, "../attest/policy/firmware_table.json") },
    entryPoints,
    outdir: folder,
    plugins: [together, styleText],
    bundle: true,
    charset: "utf8",
    chunkNames: "[name]-[hash]",
    format: "esm",
    legalComments: "none",
    metafile: true,
    minify: true,
    splitting: true,
    target: "es2022",
  });
  const importsOf = (...kinds) =>
    new Map(
      Object.entries(metafile.outputs).map(([path, { imports }]) => [
        basename(path),
        imports.filter(({ kind }) => kinds.includes(kind)).map((each) => basename(each.path)),
      ]),
    );
  return { atOnce: importsOf("import-statement"), ever: importsOf("import-statement", "dynamic-import") };
}

/** A second pass makes everything 4 % smaller once it is compressed: it moves values to where they are used. */
async function shrink() {
  for (const name of filesLike(/\.js$/)) {
    const settings = { module: true, ecma: 2020, compress: { passes: 3 } };
    const { code } = await minify(read(name).toString(), settings);
    writeFileSync(join(folder, name), code);
  }
}

/** Write the declarations: the public types stand in one file that imports nothing, so they are the library's. */
function writeTypes() {
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
    const types = readFileSync(join(scratch, "verifier/api.d.ts"), "utf8");
    writeFileSync(join(folder, "verifier.d.ts"), `${types}export declare const verifyEvidence: VerifyEvidence;\n`);
  } finally {
    rmSync(scratch, { recursive: true });
  }
}

/** The files that a module imports at once, and these import, without itself. */
function reachedFrom(name, imports) {
  const found = new Set();
  const add = (each) => {
    for (const next of imports.get(each)) {
      if (found.has(next)) continue;
      found.add(next);
      add(next);
    }
  };
  add(name);
  return [...found].sort();
}

/** Elements that both pages have. */
function part(name, indent) {
  return readFileSync(join(here, "src/ui", name), "utf8").replace(/^(?=.)/gm, indent);
}

/**
 * Write a page. An import map names each module that it may fetch with its digest before the first of them runs: none
 * is another, whenever it is fetched. The modules that the page begins with are fetched ahead, by their digests, too.
 */
function writePage(source, target, entry, { atOnce, ever }) {
  const integrity = reachedFrom(entry, ever).map((name) => [`./${name}`, integrityOf(name)]);
  const map = JSON.stringify({ integrity: Object.fromEntries(integrity) });
  const head = [
    `<script type="importmap">${map}</script>`,
    `<link rel="stylesheet" href="style.css" integrity="${integrityOf("style.css")}">`,
    ...reachedFrom(entry, atOnce).map(
      (name) => `<link rel="modulepreload" href="${name}" integrity="${integrityOf(name)}">`,
    ),
    `<script type="module" src="${entry}" integrity="${integrityOf(entry)}"></script>`,
  ];
  const html = readFileSync(join(here, source), "utf8")
    .replace(/^( *)<!--part (\S+)-->\n/gm, (_, indent, name) => part(name, indent))
    .replace("<!--files-->", () => head.join("\n"))
    .replace("IMPORT-MAP", () => createHash("sha256").update(map).digest("base64"));
  writeFileSync(join(folder, target), html);
}

function writeManifest() {
  const names = filesLike(/^(?!manifest\.json$)(?!.*\.py$)/).filter((name) => !name.startsWith("__"));
  const sha256 = Object.fromEntries(names.map((name) => [name, digestOf(name, "hex")]));
  const manifest = JSON.stringify({ schema: "attest.page/1", sha256 }, null, 2);
  writeFileSync(join(folder, "manifest.json"), `${manifest}\n`);
}

clear();
const imports = await bundle();
await shrink();
writeTypes();
writePage("src/ui/index.html", "index.html", "page.js", imports);
writePage("src/ui/alone/evidence.html", "evidence.html", "evidence.js", imports);
writeManifest();
