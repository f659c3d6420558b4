/**
 * `npm run openapi`: writes what is generated and checked in: the API's description, the table of
 * errors, the reference of the command line.
 *
 * Invariants: the same text every time for the same source; no store is opened and nothing served.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createApi } from '../src/controlplane/api.ts';
import type { ApiDeps } from '../src/controlplane/api-deps.ts';
import { openApiDocument } from '../src/controlplane/openapi.ts';
import { reasons } from '../src/core/reasons.ts';
import { renderCliDocs } from './cli-docs.ts';

/** Every generated document: its path in the repository, and the text that it should have. */
export function generatedDocuments(): Map<string, string> {
  return new Map([
    ['docs/openapi.json', renderOpenApi()],
    ['docs/errors.md', renderErrors()],
    ['docs/cli.md', renderCliDocs()],
  ]);
}

/** Describing the routes calls none of them, so what their handlers would need is only time. */
function renderOpenApi(): string {
  const deps = { clock: { monotonic: () => 0, now: () => 0 } } as unknown as ApiDeps;
  return `${JSON.stringify(openApiDocument(createApi(deps)), null, 2)}\n`;
}

function renderErrors(): string {
  const rows = Object.entries(reasons).map(([code, { status, sentence, fix }]) =>
    [code, String(status), sentence, fix ?? '–'].map(cell),
  );
  return [
    '# Codes: errors, refusals, reasons to wait, ends',
    '',
    'Made from the table in `src/core/reasons.ts`; do not edit. `npm run openapi` makes it anew.',
    '',
    'A code means the same in an error of the API, in the timeline of a workload and on the command',
    'line, and does not change. `HTTP` is the status where the code is the error of a request.',
    '`{name}` stands for a detail of the case; the API gives it in `details` too:',
    '',
    '```json',
    '{"error": {"code", "message", "fix", "details", "request_id"}}',
    '```',
    '',
    'The paths of the inference gateway answer in OpenAI’s shape instead, with the code in `code`.',
    '',
    '| code | HTTP | says | what helps |',
    '|---|---|---|---|',
    ...rows.map(
      ([code, status, sentence, fix]) => `| \`${code}\` | ${status} | ${sentence} | ${fix} |`,
    ),
    '',
  ].join('\n');
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;');
}

if (import.meta.main) {
  for (const [path, text] of generatedDocuments()) {
    writeFileSync(join(import.meta.dirname, '..', path), text);
    console.log(`wrote ${path}`);
  }
}
