/**
 * The statements of a text of several, for tests that stop between any two of them.
 */

const pieces = /'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?\*\/|;|[^'"\-/;]+|./g;

export function statementsOf(text: string): string[] {
  const statements: string[] = [];
  let current = '';
  for (const [piece] of text.matchAll(pieces)) {
    if (piece !== ';') current += piece;
    if (piece !== ';' || current.trim() === '') continue;
    statements.push(current.trim());
    current = '';
  }
  if (current.trim() !== '') statements.push(current.trim());
  return statements;
}
