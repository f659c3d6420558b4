/**
 * Writes docs/cli.md from the definitions of the command line.
 */
import { writeFileSync } from 'node:fs';
import { cliReference } from '../src/cli/reference.ts';
import { createProgram } from '../src/main.ts';

const page = new URL('../docs/cli.md', import.meta.url);

/** The page as it should be. */
export function renderCliDocs(): string {
  const program = createProgram(process, () => async () => {});
  return cliReference(program);
}

if (import.meta.main) {
  writeFileSync(page, renderCliDocs());
  console.log('wrote docs/cli.md');
}
