// Rules of the page's own, against code that saves bytes at its reader's expense: minifying is the build's work.

/** An array of values that was written out, perhaps with each of them mapped. */
function isWrittenOut(node) {
  if (node?.type === "TSAsExpression") return isWrittenOut(node.expression);
  if (node?.type === "ArrayExpression") return true;
  return node?.type === "CallExpression" && node.callee.type === "MemberExpression" && isWrittenOut(node.callee.object);
}

/** The values that a pattern takes apart, when each of its names stands for exactly one of them. */
function pairsOf({ id, init }) {
  if (init.type !== "ArrayExpression" || id.typeAnnotation || init.elements.length !== id.elements.length) return [];
  const pairs = id.elements.map((name, position) => [name, init.elements[position]]);
  const areSingle = pairs.every(
    ([name, value]) => name?.type !== "RestElement" && value && value.type !== "SpreadElement",
  );
  return areSingle ? pairs.filter(([name]) => name) : [];
}

const noParallelDeclaration = {
  meta: {
    type: "suggestion",
    fixable: "code",
    schema: [],
    messages: { parallel: "Declare each of these in a statement of its own." },
  },
  create(context) {
    const source = context.sourceCode;
    return {
      VariableDeclaration(declaration) {
        const [only] = declaration.declarations;
        if (only?.id.type !== "ArrayPattern" || !only.init || !isWrittenOut(only.init)) return;
        const pairs = declaration.parent.type === "ForStatement" ? [] : pairsOf(only);
        const lines = pairs.map(
          ([name, value]) => `${declaration.kind} ${source.getText(name)} = ${source.getText(value)};`,
        );
        const isExported = declaration.parent.type === "ExportNamedDeclaration";
        const separator = isExported ? "\nexport " : "\n";
        const fix = lines.length ? (fixer) => fixer.replaceText(declaration, lines.join(separator)) : null;
        context.report({ node: declaration, messageId: "parallel", fix });
      },
    };
  },
};

export default { rules: { "no-parallel-declaration": noParallelDeclaration } };
