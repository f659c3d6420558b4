/**
 * Programs, terminals and files of a workload on the real program: its sandbox, its command line,
 * its page in a real browser.
 */
import assert from 'node:assert/strict';
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import type { Page } from 'playwright-core';
import { type ExecResult, exec, killGroup, spawnPiped } from '../../src/lib/exec.ts';
import { spawnOnTerminal } from '../../src/lib/pty.ts';
import { seededRandom } from '../../src/lib/random.ts';
import { processesWith } from '../lib/native-harness.ts';
import { needs } from '../lib/parts.ts';
import {
  cleanUp,
  mainFile,
  type Program,
  startProgram,
  temporaryFolder,
  until,
} from '../lib/program.ts';
import { openTerminal } from '../lib/terminal-page.ts';

const real = needs('python', 'bwrap', 'cgroup');
const given = {} as { program: Program; folder: string; id: string; env: Record<string, string> };

before(async () => {
  if (real.skip) return;
  const data_dir = temporaryFolder();
  const program = await startProgram({ data_dir });
  const folder = join(data_dir, 'given');
  mkdirSync(folder);
  const env = { PATH: process.env.PATH ?? '', EINSORA_DATA_DIR: data_dir };
  Object.assign(given, { program, folder, env });
  // Its environment is fetched once, into the cache that tests share.
  const launched = await program.cli(['launch', 'notebook', '--name', 'box', '--json'], 240_000);
  assert.equal(launched.code, 0, launched.stderr);
  given.id = JSON.parse(launched.stdout).workload.id;
});

after(async () => {
  if (!real.skip) await cleanUp(given.program.data_dir, given.program);
});

function cli(args: string[], input?: string): Promise<ExecResult> {
  return exec(process.execPath, [mainFile, ...args], {
    ...{ cwd: given.folder, env: given.env, timeout_ms: 60_000 },
    output_limit_bytes: 32 * 2 ** 20,
    ...(input === undefined ? {} : { input }),
  });
}

test('a program in a workload prints, fails and reads as if it ran here', real, async () => {
  const both = await cli(['exec', 'box', '--', 'sh', '-c', 'echo out; echo err >&2; exit 7']);
  assert.deepEqual([both.code, both.stdout, both.stderr], [7, 'out\n', 'err\n']);
  const given_input = 'some ü text\n'.repeat(20_000);
  const through = await cli(['exec', '-i', 'box', '--', 'cat'], given_input);
  assert.ok(through.stdout === given_input && through.code === 0);
  const closed = await cli(['exec', 'box', '--', 'cat'], 'not handed on');
  assert.deepEqual([closed.code, closed.stdout], [0, '']);
  const much = await cli(['exec', 'box', '--', 'head', '-c', '10000000', '/dev/zero']);
  assert.equal(much.stdout.length, 10_000_000);
  const none = await cli(['exec', 'box', '--', 'no-such-program']);
  assert.equal(none.code, 127);
  const killed = await cli(['exec', 'box', '--', 'sh', '-c', 'kill -TERM $$']);
  assert.equal(killed.code, 143);
  const where = await cli([
    'exec',
    '-e',
    'A=b c',
    '-w',
    '/usr',
    'box',
    '--',
    'sh',
    '-c',
    'echo "$A"; pwd',
  ]);
  assert.equal(where.stdout, 'b c\n/usr\n');
});

test('what cannot be is said, with what helps', real, async () => {
  const none = await cli(['exec', 'bix', '--', 'true']);
  assert.equal(none.code, 4);
  assert.match(none.stderr, /did you mean box\?/);
  const wrong = await cli(['exec', '-e', 'A', 'box', '--', 'true']);
  assert.equal(wrong.code, 2);
  const nowhere = await cli(['exec', '-w', '/nope', 'box', '--', 'true']);
  assert.equal(nowhere.code, 125);
  assert.match(nowhere.stderr, /nope/);
});

test('in a terminal it has its size, gets another one, and gives the keys back', real, async () => {
  const command = `'${process.execPath}' '${mainFile}' exec box`;
  const line = `${command}; echo "left $?"; stty -a | tr ';' '\\n'`;
  const shown = spawnOnTerminal('setsid', ['-cw', 'sh', '-c', line], {
    ...{ cwd: given.folder, env: { ...given.env, TERM: 'xterm' }, size: { columns: 91, rows: 33 } },
  });
  let said = '';
  shown.stdout.on('data', (chunk) => {
    said += chunk;
  });
  const untilSaid = (pattern: RegExp) =>
    until(
      () => pattern.test(said),
      20_000,
      () => said,
    );
  try {
    await untilSaid(/\$ |# /);
    shown.stdin.write('stty size; echo typed-$((40+2))\r');
    await untilSaid(/33 91\s+typed-42/);
    shown.resize({ columns: 70, rows: 22 });
    const asking = setInterval(() => shown.stdin.write('stty size\r'), 300);
    await untilSaid(/22 70/).finally(() => clearInterval(asking));
    // Ctrl-C goes to what runs there, not to the command here.
    shown.stdin.write('sleep 1000\r');
    await untilSaid(/sleep 1000/);
    shown.stdin.write('\x03');
    shown.stdin.write('echo after-$((1+1))\r');
    await untilSaid(/after-2/);
    shown.stdin.write('exit 5\r');
    await untilSaid(/left 5[\s\S]*isig icanon[\s\S]* echo /);
  } finally {
    killGroup(shown.pid, 'SIGKILL');
    shown.stdout.destroy();
  }
});

test('a command that is killed here leaves nothing running there', real, async () => {
  const args = [mainFile, 'exec', 'box', '--', 'sh', '-c', 'echo ready; exec sleep 98761'];
  const client = spawnPiped(process.execPath, args, { cwd: '/', env: given.env });
  client.stderr?.resume();
  await new Promise((resolve) => client.stdout.once('data', resolve));
  const there = () => processesWith('sleep 98761').filter((pid) => commandOf(pid) === 'sleep');
  await until(
    () => processesWith('98761').length > 1,
    10_000,
    () => 'it runs',
  );
  killGroup(client.pid, 'SIGKILL');
  await until(
    () => there().length === 0 && processesWith('98761').length === 0,
    10_000,
    () => 'gone',
  );
});

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
  } catch {
    return '';
  }
}

test('files and folders go in and come out, whole, with their modes', real, async () => {
  const { folder } = given;
  const content = Buffer.from(seededRandom(4).bytes(20_000_000));
  writeFileSync(join(folder, 'big'), content);
  chmodSync(join(folder, 'big'), 0o750);
  const sent = await cli(['cp', 'big', 'box:/tmp/big']);
  assert.deepEqual([sent.code, sent.stdout], [0, ''], sent.stderr);
  assert.match(sent.stderr, /1 file, 20\.0 MB/);
  assert.equal(
    (await cli(['exec', 'box', '--', 'stat', '-c', '%a %s', '/tmp/big'])).stdout,
    '750 20000000\n',
  );
  assert.equal((await cli(['cp', 'box:/tmp/big', 'back'])).code, 0);
  assert.ok(readFileSync(join(folder, 'back')).equals(content));
  assert.equal(statSync(join(folder, 'back')).mode & 0o777, 0o750);

  mkdirSync(join(folder, 'tree', 'inner'), { recursive: true });
  writeFileSync(join(folder, 'tree', 'inner', 'a b ü'), 'deep');
  symlinkSync('inner/a b ü', join(folder, 'tree', 'link'));
  symlinkSync('/nowhere', join(folder, 'tree', 'dangling'));
  const refused = await cli(['cp', 'tree', 'box:/tmp/']);
  assert.equal(refused.code, 2);
  assert.match(refused.stderr, /-r/);
  const tree = await cli(['cp', '-r', 'tree', 'box:/tmp/']);
  assert.equal(tree.code, 0, tree.stderr);
  assert.match(tree.stderr, /dangling was left out/);
  const out = await cli(['cp', '-r', 'box:/tmp/tree', 'tree2', '--json']);
  assert.equal(JSON.parse(out.stdout).files, 2);
  assert.equal(readFileSync(join(folder, 'tree2', 'inner', 'a b ü'), 'utf8'), 'deep');
  assert.deepEqual(readdirSync(join(folder, 'tree2')).sort(), ['inner', 'link']);

  const piped = await cli(['cp', '-', 'box:/tmp/piped'], 'from a pipe');
  assert.equal(piped.code, 0, piped.stderr);
  assert.equal((await cli(['cp', 'box:/tmp/piped', '-'])).stdout, 'from a pipe');
});

test('copies that cannot be say why, and leave what was there', real, async () => {
  const cases: [string[], number, RegExp][] = [
    [['cp', 'no-such-file', 'box:/tmp/x'], 1, /no-such-file/],
    [['cp', 'box:/tmp/none', 'x'], 4, /There is no \/tmp\/none in box/],
    [['cp', 'box:relative', 'x'], 2, /absolute/],
    [['cp', 'a', 'b'], 2, /neither end/],
    [['cp', 'box:/a', 'box:/b'], 2, /both ends/],
    [['cp', 'box:/tmp', 'x'], 2, /-r/],
    [['cp', 'big', 'box:/usr/big'], 5, /cannot be written/],
    [['cp', 'big', 'box:/proc/sys/kernel/hostname'], 5, /kernel/],
    [['cp', 'box:/dev/zero', 'x'], 5, /no regular file/],
    [['cp', 'big', 'nobox:/tmp/x'], 4, /nobox/],
  ];
  for (const [args, code, said] of cases) {
    const tried = await cli(args);
    assert.equal(tried.code, code, `${args.join(' ')}: ${tried.stderr}`);
    assert.match(tried.stderr, said);
  }
  assert.deepEqual(
    readdirSync(given.folder).filter((name) => name.includes('.part')),
    [],
  );
});

test('the web terminal types, shows, resizes, keeps up with a flood, and says how it ended', {
  ...needs('python', 'bwrap', 'cgroup', 'chromium'),
  timeout: 90_000,
}, async () => {
  const { browser, page, shown, shows } = await openTerminal(given.program, given.id);
  try {
    const problems: string[] = [];
    page.on('console', (line) => {
      if (line.type() === 'error') problems.push(line.text());
    });
    await page.locator('.xterm-helper-textarea').waitFor({ timeout: 20_000 });
    await shows(/[$#]/);
    assert.equal(await page.title(), 'box: terminal');
    await page.keyboard.type('echo it-$((40+2))\n');
    await shows(/it-42/);

    await page.setViewportSize({ width: 700, height: 500 });
    await page.waitForTimeout(400);
    await page.keyboard.type('clear; stty size\n');
    await shows(/\d+ (?:[5-8]\d)\D/);

    // Ten megabytes of lines: the page stays awake meanwhile, and the end is there.
    await page.keyboard.type('clear; yes flooding | head -c 10000000; echo; echo flood-$((6*7))\n');
    const began = Date.now();
    let longest = 0;
    for (let at = Date.now(); !(await shown()).includes('flood-42'); ) {
      longest = Math.max(longest, Date.now() - at);
      at = Date.now();
      assert.ok(at - began < 40_000, 'the flood ends');
      await page.waitForTimeout(20);
    }
    assert.ok(longest < 3000, `it did not freeze: ${longest} ms`);

    await tryToReachThePage(page, shows);

    await page.locator('.xterm-helper-textarea').focus();
    await page.keyboard.type('exit 3\n');
    await page.getByText('The shell ended (3).').waitFor();
    await page.getByRole('button', { name: 'New shell' }).click();
    await page.waitForTimeout(300);
    await page.keyboard.type('echo again-$((2+2))\n');
    await shows(/again-4/);
    assert.deepEqual(problems, [], 'the policy of the page holds, and nothing runs against it');
  } finally {
    await browser.close();
  }
});

/** What is printed is drawn, and no more. */
async function tryToReachThePage(
  page: Page,
  shows: (pattern: RegExp) => Promise<void>,
): Promise<void> {
  await page.evaluate('window.opened = 0; window.open = () => { window.opened += 1; }');
  const evil = [
    "printf '\\033]52;c;aHVzaA==\\007'",
    "printf '\\033]0;Einsora sign in\\342\\200\\256\\007'",
    "printf '\\033]8;;https://evil.example/\\033\\\\evil-link\\033]8;;\\033\\\\\\n'",
    "printf '\\033[21t\\033[20t\\033[3;0;0t\\033[8;5;5t'",
    "printf '<img src=x onerror=alert(1)>\\n'; echo evil-$((1+1))",
  ].join('; ');
  await page.keyboard.type(`clear; ${evil}\n`);
  await shows(/evil-2/);
  assert.match(await page.title(), /^box: Einsora sign in$/);
  const box = await page.getByText('evil-link').last().boundingBox();
  assert.ok(box !== null);
  await page.mouse.move(box.x + 5, box.y + 5);
  await page.mouse.click(box.x + 5, box.y + 5);
  const state = await page.evaluate(
    "({ opened: window.opened, images: document.querySelectorAll('#terminal img').length })",
  );
  assert.deepEqual(state, { opened: 0, images: 0 });
  assert.equal(new URL(page.url()).pathname, `/terminal/${given.id}`);
}

test('a stop cuts it off with the reason, and says so with a code of its own', real, async () => {
  const args = [mainFile, 'exec', 'box', '--', 'sh', '-c', 'echo ready; exec sleep 1000'];
  const client = spawnPiped(process.execPath, args, { cwd: '/', env: given.env });
  const said = text(client.stderr ?? process.stdin);
  await new Promise((resolve) => client.stdout.once('data', resolve));
  assert.equal((await cli(['stop', 'box'])).code, 0);
  assert.equal((await client.exited).code, 255);
  assert.match(await said, /The connection to box was cut/);
  const late = await cli(['exec', 'box', '--', 'true']);
  assert.equal(late.code, 5);
  assert.match(late.stderr, /box is stopped/);
});
