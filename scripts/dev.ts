/**
 * `npm run dev`: the program from source, started again whenever something under src changes. Words
 * after `--` go to `einsora up`.
 */
import { join } from 'node:path';
import { spawnChild } from '../src/lib/exec.ts';

const root = join(import.meta.dirname, '..');
const child = spawnChild(
  process.execPath,
  [
    '--disable-warning=ExperimentalWarning',
    `--watch-path=${join(root, 'src')}`,
    '--watch-preserve-output',
    join(root, 'src/main.ts'),
    ...['up', '--no-open', ...process.argv.slice(2)],
  ],
  { env: process.env, inherit: true },
);
// Ctrl-C reaches the whole group of the terminal; a signal sent to this process alone is passed on.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => child.kill(signal));
}
child.once('close', (code, signal) => {
  process.exitCode = code ?? (signal === null ? 0 : 1);
  console.log(`dev ended with ${signal ?? `exit code ${code}`}`);
});
