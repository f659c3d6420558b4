/**
 * What SQLite itself says of a data folder's file, asked in a process of its own: no other part of
 * the tests opens the file beside the program.
 */
import { join } from 'node:path';
import { exec } from '../../src/lib/exec.ts';

const script = `
  const { DatabaseSync } = require('node:sqlite');
  const store = new DatabaseSync(process.argv[1]);
  const ask = (text) => store.prepare(text).all().map((row) => Object.values(row).join(' '));
  console.log([...ask('pragma integrity_check'), ...ask('pragma foreign_key_check')].join('; '));`;

/** `ok`, or the first things that are wrong. */
export async function checkIntegrity(data_dir: string): Promise<string> {
  const args = [
    '--disable-warning=ExperimentalWarning',
    '-e',
    script,
    join(data_dir, 'einsora.db'),
  ];
  const { stdout, stderr } = await exec(process.execPath, args, { timeout_ms: 60_000 });
  return `${stdout}${stderr}`.trim();
}
