/**
 * The rules of the architecture test, each on a made-up source that breaks it and on one that does
 * not.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decisionProblems, dependencyProblems, unwantedWords } from './lib/repository-rules.ts';
import { functionsOf, importsOf } from './lib/source-facts.ts';
import { problemsOf } from './lib/source-rules.ts';
import { readSource } from './lib/source-tree.ts';

const opening = '/** What it is. */\n';
const problems = (path: string, text: string) =>
  problemsOf(readSource(path, opening + text)).map(
    ({ line, problem }) => `${line - 1}: ${problem}`,
  );
const clean = (path: string, text: string) => assert.deepEqual(problems(path, text), []);
const broken = (path: string, text: string, expected: RegExp) => {
  const found = problems(path, text);
  assert.equal(found.length, 1, found.join('; '));
  assert.match(found[0] ?? '', expected);
};

test('comments, strings, templates and expressions are told apart', () => {
  const inner = '$' + "{a ? `{` : '}'}";
  const source = readSource(
    'a.ts',
    `const a = 'it // is'; // a 'note'\nconst b = \`x ${inner} y\`;\nconst c = /[/'"]/g;\n`,
  );
  assert.deepEqual(
    source.strings.map((literal) => literal.value),
    ['it // is', '{', '}', 'x  y'],
  );
  assert.deepEqual(
    source.comments.map((comment) => comment.value),
    ["// a 'note'"],
  );
  assert.equal(source.code.length, source.text.length);
  assert.match(source.code, /const c = \/ +\/g;/);
});

test('imports are found, with how they load', () => {
  const source = readSource(
    'src/core/a.ts',
    [
      "import 'x';",
      "import type { T } from '../lib/t.ts';",
      'import {',
      '  type U,',
      '  u,',
      "} from './u.ts';",
      "export { v } from './v.ts';",
      "export const w = () => import('./w.ts');",
      'const text = "import no from \'no\'";',
    ].join('\n'),
  );
  assert.deepEqual(importsOf(source), [
    { target: 'x', how: 'static', line: 1 },
    { target: 'src/lib/t.ts', how: 'type', line: 2 },
    { target: 'src/core/u.ts', how: 'static', line: 6 },
    { target: 'src/core/v.ts', how: 'static', line: 7 },
    { target: 'src/core/w.ts', how: 'lazy', line: 8 },
  ]);
});

test('functions of every form are measured', () => {
  const text = [
    'export async function plain(a: string): Promise<{ b: string }> {',
    '  if (a) {',
    '    call(() => {',
    '      go({',
    '        a,',
    '      });',
    '    });',
    '  }',
    '}',
    'function destructured({',
    '  a,',
    '}: Props): {',
    '  b: string;',
    '} {',
    '  return a;',
    '}',
    'const arrow = (a) => {',
    '  return a;',
    '};',
    'class Thing {',
    '  async method(a: string): Promise<void> {',
    '    await a;',
    '  }',
    '  other(',
    '    a: string,',
    '  ): void {',
    '    a;',
    '  }',
    '}',
  ].join('\n');
  assert.deepEqual(
    functionsOf(readSource('a.ts', text)).map((one) => [one.name, one.line, one.lines]),
    [
      ['plain', 1, 9],
      ['call', 3, 5],
      ['destructured', 10, 7],
      ['arrow', 17, 3],
      ['method', 21, 3],
      ['other', 24, 5],
    ],
  );
});

test('layers: what the table allows, and nothing else', () => {
  clean('src/store/a.ts', "import { b } from '../core/b.ts';");
  broken('src/core/a.ts', "import { b } from '../lib/b.ts';", /core may not import lib/);
  broken('src/core/a.ts', "import { b } from 'node:fs';", /may not import node:fs/);
  clean('src/core/a.ts', "import type { b } from '../contract/b.ts';");
  broken('src/core/a.ts', "import { b } from '../contract/b.ts';", /core may not import contract/);
  clean('src/contract/a.ts', "import { b } from '../core/b.ts';");
  broken('src/contract/a.ts', "import { b } from 'hono';", /may not import hono/);
  broken('src/gateway/a.ts', "import { b } from '../drivers/b.ts';", /may not import drivers/);
  broken('src/drivers/a.ts', "import { b } from '../store/b.ts';", /may not import store/);
  broken('src/lib/a.ts', "import { b } from '../../test/lib/b.ts';", /may not import its tests/);
  clean('src/lib/a.test.ts', "import { b } from '../../test/lib/b.ts';");
  broken('src/unheard/a.ts', "import { b } from '../core/b.ts';", /unheard is no layer/);
});

test('layers: the program starts the agent in one place, and commands load the rest lazily', () => {
  const agent = "import { b } from '../agent/b.ts';";
  clean('src/controlplane/system.ts', agent);
  broken('src/controlplane/server.ts', agent, /controlplane may not import agent/);
  broken('src/cli/up.ts', agent, /cli may not import agent/);
  clean('src/cli/up.ts', "export const b = () => import('../agent/b.ts');");
  broken('src/cli/ls.ts', "export const b = () => import('../agent/b.ts');", /agent \(lazy\)/);
  broken('web/a.ts', "import { b } from '../src/core/b.ts';", /web may not import core/);
  clean('web/a.ts', "import type { b } from '../src/core/b.ts';");
});

test('what one file owns is used by no other', () => {
  const only = (path: string, text: string) => broken(path, text, /only in/);
  only('src/store/a.ts', "import { DatabaseSync } from 'node:sqlite';");
  clean('src/store/sqlite.ts', "import { DatabaseSync } from 'node:sqlite';");
  only('src/agent/a.ts', "import { spawn } from 'node:child_process';");
  only('test/e2e/a.test.ts', "import { spawn } from 'node:child_process';");
  only('src/agent/a.ts', 'const a = process.env.HOME;');
  clean('scripts/a.ts', 'const a = process.env.HOME;');
  only('src/core/a.ts', 'const a = Date.now();');
  only('src/core/a.ts', 'const a = new Date();');
  clean('src/core/a.ts', 'const a = new Date(1).getTime();');
  only('src/lib/a.ts', 'setTimeout(() => 1, 2);');
  clean('src/lib/a.ts', 'response.setTimeout(2);');
  only('src/lib/a.ts', 'const a = Math.random();');
});

test("a workload's state is moved in one file, and begun in another", () => {
  const sql = (text: string) => `const a = \`${text}\`;`;
  const write = sql('update workloads set code = $1,\n state = $2 where id = $3');
  broken('src/store/runs.ts', write, /state is set only in/);
  broken('src/store/workloads.ts', write, /only in src\/store\/moves\.ts/);
  clean('src/store/moves.ts', write);
  const insert = sql('insert into workloads (id, state) values ($1, $2)');
  broken('src/store/moves.ts', insert, /only in src\/store\/workloads\.ts/);
  clean('src/store/workloads.ts', insert);
  clean('src/store/events.ts', sql('insert into workload_events (workload_id) values ($1)'));
  clean('src/store/runs.ts', sql('update workloads set code = $1 where state = $2'));
  clean('src/store/runs.ts', sql('update workloads set state_since = $1'));
});

test('sizes are limited', () => {
  const body = '  go();\n'.repeat(69);
  broken('src/core/a.ts', `function f() {\n${body}}`, /f has 71 lines, 70 at most/);
  clean('src/core/a.ts', `function f() {\n${body.slice('  go();\n'.length)}}`);
  broken('src/core/a.ts', 'go();\n'.repeat(400), /lines, 400 at most/);
  broken('src/core/a.ts', `const a = ${'b + '.repeat(25)}b;`, /columns, 100 at most/);
  clean('src/core/a.ts', `  problem: '${'long '.repeat(20)}',`);
});

test('the language is the one agreed on', () => {
  broken('src/core/a.ts', 'const a: any = 1;', /no any/);
  clean('src/core/a.ts', 'const a = z.any(); // any');
  broken('src/core/a.ts', 'const a = b!.c;', /no non-null/);
  clean('src/core/a.ts', 'const a = !b.c !== d;');
  broken('src/core/a.ts', 'export enum A {}', /no enums/);
  broken('src/core/a.ts', 'namespace A {}', /no namespaces/);
  broken('src/core/a.ts', 'export default 1;', /no default exports/);
  broken('src/core/a.ts', `// ${'TO'}DO later`, /nothing is left to do/);
});

test('a file of the program says what it is', () => {
  const source = readSource('src/core/a.ts', 'const a = 1;');
  assert.deepEqual(
    problemsOf(source).map((one) => one.problem),
    ['a file opens by saying what it is'],
  );
});

test('words of one machine, registry or ticket are found', () => {
  const found = (text: string) => unwantedWords({ path: 'a', text }).length;
  assert.equal(found(`see /${'ro'}ot/thing and /${'wo'}rk/x`), 2);
  assert.equal(found(`from ${'py'}pi.org, not pypixorg`), 1);
  assert.equal(found(`as is${'sue'} 12 says`), 1);
  assert.equal(found('apt-get install docker.io; src/work/a.ts; a/root/b'), 0);
});

test('a dependency is pinned and has its full line', () => {
  const manifest = JSON.stringify({ dependencies: { zod: '4.6.7' } });
  const line = '| `zod` 4.6.7 | schemas | MIT | 8M | JSON Schema |';
  const said = (document: string, json = manifest) =>
    dependencyProblems(json, document).map((one) => one.problem);
  assert.deepEqual(said(line), []);
  assert.deepEqual(said(''), ['no line for zod 4.6.7']);
  assert.deepEqual(said('| `zod` 4.6.7 | | MIT | 8M | x |'), ['zod: five filled cells are wanted']);
  assert.match(said(line, '{"devDependencies":{"zod":"^4.6.7"}}')[0] ?? '', /not pinned/);
});

test('decision records are numbered without gap, titled and listed', () => {
  const record = (number: string) => ({
    path: `docs/adr/${number}-a.md`,
    text: `# ADR-${number}: A\n`,
  });
  const said = (numbers: string[], list = '(0001-a.md) (0005-a.md) (0007-a.md) (0009-a.md)') =>
    decisionProblems(numbers.map(record), list).map((one) => one.problem);
  assert.deepEqual(said(['0001', '0005', '0007']), []);
  assert.deepEqual(said(['0001', '0007']), ['number 5 is missing']);
  assert.deepEqual(said(['0001', '0001']), ['number 0001 is taken']);
  assert.deepEqual(said(['0001'], ''), ['it is not listed in docs/adr/README.md']);
  assert.equal(said(['0001', '0002']).length, 2);
});
