/**
 * Situations: scenes written for people (test/situations/*.md), and played: made-up machines, what
 * people do, and the exact lines that the command line answers.
 *
 * A scene is one `json` block: `machines`, as `up --sim-machines` takes them, and `people`, members
 * of tenants of their own, or of the tenant that `of` names. What happens stands in `console`
 * blocks: `ada$ bin/einsora …` and what it prints, where a line `...` stands for any lines; and
 * `(10 minutes pass)`, `(desk goes silent)`, `(desk is back)`, `(desk begins anew)`.
 *
 * Invariants: ids are written `<id>`; times are UTC, on a clock that only moves when told.
 */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Role } from '../../src/contract/auth.ts';
import type { SimMachineText } from '../../src/contract/sim-machines.ts';
import { createFleet, type Fleet } from './fleet.ts';
import { serveRig } from './rig-server.ts';
import { runCli } from './run-cli.ts';

export type Step =
  | { is: 'asks'; person: string; line: string; expected: string[] }
  | { is: 'happens'; text: string };
type Person = { of?: string; role?: Role };
export type Scene = { machines: SimMachineText[]; people: Record<string, Person> };
export type Situation = { title: string; scene: Scene; steps: Step[] };

/** What a person did, and what was answered. */
export type Told = { line: string; expected: string[]; actual: string[] };

export function parseSituation(text: string): Situation {
  const title = /^# (.+)$/m.exec(text)?.[1] ?? assert.fail('it has no title');
  const [, json] = /^```json\n(.*?)^```/ms.exec(text) ?? [];
  const scene = JSON.parse(json ?? assert.fail('it has no scene')) as Scene;
  const blocks = [...text.matchAll(/^```console\n(.*?)^```/gms)].map((found) => found[1] ?? '');
  const steps = blocks.flatMap((block) => parseSteps(block.split('\n').slice(0, -1)));
  return { title, scene, steps };
}

function parseSteps(lines: string[]): Step[] {
  const steps: Step[] = [];
  for (const line of lines) {
    const asked = /^(\w+)\$ bin\/einsora (.+)$/.exec(line);
    const event = /^\((.+)\)$/.exec(line);
    const last = steps.at(-1);
    if (asked !== null) {
      const [, person = '', rest = ''] = asked;
      steps.push({ is: 'asks', person, line: rest, expected: [] });
    } else if (event !== null) steps.push({ is: 'happens', text: event[1] ?? '' });
    else if (last?.is === 'asks') last.expected.push(line);
    else assert.equal(line, '', `nobody asked for: ${line}`);
  }
  return steps;
}

/** Plays it; the answers come one by one, each before the next question. */
export async function* playSituation({ scene, steps }: Situation): AsyncGenerator<Told> {
  const fleet = await createFleet(scene.machines, { whole: true });
  const server = await serveRig(fleet.rig);
  try {
    const folders = new Map<string, string>();
    for (const [name, { of = name, role = 'member' }] of Object.entries(scene.people)) {
      const { token } = await fleet.person(of, role);
      folders.set(name, signIn(server, name, token));
    }
    await settle(fleet);
    let asked = 0;
    for (const step of steps) {
      if (step.is === 'happens') {
        await happen(fleet, step.text);
        continue;
      }
      const folder = folders.get(step.person) ?? assert.fail(`there is no ${step.person}`);
      asked += 1;
      const actual = await answerTo(fleet, folder, step.line, asked);
      await settle(fleet);
      yield { line: step.line, expected: step.expected, actual };
    }
  } finally {
    await server.close();
    await fleet.close();
  }
}

function signIn(server: { url: string; data_dir: string }, name: string, token: string): string {
  const folder = join(server.data_dir, `of-${name}`);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const found = { url: server.url, pid: process.pid, version: '0.1.0' };
  writeFileSync(join(folder, 'control-plane.json'), JSON.stringify(found));
  writeFileSync(join(folder, 'owner-token'), `${token}\n`, { mode: 0o600 });
  return folder;
}

async function answerTo(
  fleet: Fleet,
  folder: string,
  line: string,
  seed: number,
): Promise<string[]> {
  const argv = (line.match(/"[^"]*"|\S+/g) ?? []).map((word) => word.replaceAll('"', ''));
  const { clock } = fleet.rig;
  const { stdout, stderr } = await runCli(argv, {
    ...{ data_dir: folder, unnamed: true, columns: 200, seed, began_at: clock.now() },
    env: { TERM: 'xterm', EINSORA_DATA_DIR: folder },
  });
  const text = `${stdout}${stderr}`.replaceAll(/\b[0-7][0-9a-hjkmnp-tv-z]{25}\b/g, '<id>');
  return text
    .replace(/\n$/, '')
    .split('\n')
    .map((one) => one.trimEnd());
}

const units: Record<string, number> = { second: 1000, minute: 60_000, hour: 3_600_000 };

async function happen(fleet: Fleet, text: string): Promise<void> {
  const [, count, unit = ''] = /^(\d+) (second|minute|hour)s? pass(?:es)?$/.exec(text) ?? [];
  if (count !== undefined) return fleet.advance(Number(count) * (units[unit] ?? 0));
  const [, name = '', what] = /^(\S+) (goes silent|is back|begins anew|ends)$/.exec(text) ?? [];
  if (what === undefined) assert.fail(`nobody knows what happens: ${text}`);
  const machine = fleet.machine(name);
  if (what === 'goes silent') machine.cut();
  else if (what === 'is back') machine.heal();
  else if (what === 'begins anew') machine.startAgent();
  else await machine.stopAgent();
  await settle(fleet);
}

/** What was asked reaches the machines, and their word comes back. */
const settle_ms = 10_000;
const settle = (fleet: Fleet): Promise<void> => fleet.advance(settle_ms);

/** A line `...` stands for any lines, or none. */
export function answers(expected: string[], actual: string[]): boolean {
  const [line, ...rest] = expected;
  if (line === undefined) return actual.length === 0;
  if (line !== '...') return actual[0] === line && answers(rest, actual.slice(1));
  for (let at = 0; at <= actual.length; at += 1) {
    if (answers(rest, actual.slice(at))) return true;
  }
  return false;
}
