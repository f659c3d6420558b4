/**
 * What an agent's runs need, made up: the sim driver, an engine that is only named, a real model
 * file, a journal in a folder of its own, and a clock that only moves when told.
 *
 * Invariants: nothing is started, nothing leaves this process; `close` leaves nothing behind.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createDoubts, type Doubts } from '../../src/agent/doubts.ts';
import { createEndpointWork } from '../../src/agent/endpoint-run.ts';
import { createInstanceWork } from '../../src/agent/instance-run.ts';
import { openJournal } from '../../src/agent/journal.ts';
import { createNotebookWork } from '../../src/agent/notebook-run.ts';
import { patience } from '../../src/agent/run-watch.ts';
import type { RunsDeps } from '../../src/agent/runs.ts';
import type { DesiredRun } from '../../src/contract/sync.ts';
import { makeId } from '../../src/core/ids.ts';
import type { RunKey } from '../../src/core/run.ts';
import type { Driver } from '../../src/drivers/driver.ts';
import { createSimDriver, type SimPlan } from '../../src/drivers/sim.ts';
import { seededRandom } from '../../src/lib/random.ts';
import type { Jupyter } from '../../src/runtimes/jupyter.ts';
import type { Runtime } from '../../src/runtimes/runtime.ts';
import { createFakeClock, type FakeClock } from './fake-clock.ts';
import { writeKnownAnswerModel } from './known-answer.ts';
import { keepingLog, type LogLine } from './rig.ts';

export type AgentRig = {
  deps: Omit<RunsDeps, 'changed'>;
  driver: Driver;
  clock: FakeClock;
  folder: string;
  journal_folder: string;
  lines: LogLine[];
  doubts: Doubts;
  /** What the next runs go through. */
  plan: { next: SimPlan };
  /** Runs that were started, in order. */
  started: RunKey[];
  /** Lets time pass until it is so. */
  until(isSo: () => boolean, what: string): Promise<void>;
  close(): void;
};

const engine = { label: 'made up', dialect: 'llama-server' as const };

const runtime: Runtime = {
  name: 'made up',
  readiness: {
    health_path: '/health',
    metrics_path: '/metrics',
    answers: [{ path: '/v1/chat/completions', body: (model) => ({ model, messages: [] }) }],
  },
  find: async () => ({ ok: true, engine: { ...engine, program: [], mounts: [], flags: [] } }),
  install: async () => ({ ok: true, engine: { ...engine, program: [], mounts: [], flags: [] } }),
  command: () => ({ argv: ['serve'], env: {}, mounts: [], ports: ['api'], notes: [] }),
};

const jupyter: Jupyter = {
  install: async () => ({
    ok: true,
    environment: { label: 'made up', program: ['lab'], path: '/opt', env: {}, mounts: [] },
  }),
};

/** `wrap` may stand between the agent and the sim driver. */
export function createAgentRig(
  options: { wrap?: (driver: Driver, rig: { journal_folder: string }) => Driver } = {},
): AgentRig {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-agent-'));
  const journal_folder = join(folder, 'journal');
  const clock = createFakeClock();
  const lines: LogLine[] = [];
  const log = keepingLog(lines);
  const plan: AgentRig['plan'] = { next: {} };
  const started: RunKey[] = [];
  const script = () => plan.next;
  const random = seededRandom(5);
  const sim = createSimDriver({ folder: join(folder, 'sim'), clock, random, script });
  const counting: Driver = {
    ...sim,
    start: (spec, signal) => {
      started.push(spec.run);
      return sim.start(spec, signal);
    },
  };
  const driver = options.wrap?.(counting, { journal_folder }) ?? counting;
  const model_path = join(folder, 'model.gguf');
  writeKnownAnswerModel(model_path);
  const bwrap = { path: '/usr/bin/bwrap', version: '0.0.0' };
  const bringer = {
    find: async () => bwrap,
    install: async () => ({ ok: true as const, ...bwrap }),
  };
  const doubts = createDoubts();
  const deps: AgentRig['deps'] = {
    drivers: new Map([['sim', driver]]),
    works: {
      endpoint: createEndpointWork({
        ...{ bwrap: bringer, runtime, clock, patience, doubts },
        resolveModel: async (name) => ({ ok: true, path: model_path, name }),
      }),
      notebook: createNotebookWork({
        ...{ bwrap: bringer, jupyter, clock, patience },
        gateway: { url: () => 'http://localhost:4600/v1' },
      }),
      instance: createInstanceWork({ clock, patience }),
    },
    journal: openJournal(journal_folder, log),
    boot_id: 'boot-1',
    clock,
    log,
  };
  return {
    ...{ deps, driver, clock, folder, journal_folder, lines, plan, started, doubts },
    async until(isSo, what) {
      for (let round = 0; round < 4000; round += 1) {
        if (isSo()) return;
        await clock.advance(20);
      }
      throw new Error(`it never came: ${what}\n${JSON.stringify(lines.slice(-5))}`);
    },
    close: () => rmSync(folder, { recursive: true, force: true }),
  };
}

export function runOf(number: number, run_epoch = 1): RunKey {
  const workload_id = makeId(number, new Uint8Array(10));
  return { workload_id, replica: 0, run_epoch };
}

export function desire(run: RunKey, action: DesiredRun['action'] = 'run'): DesiredRun {
  const engine = { image_id: null, accelerator: null };
  const spec = { kind: 'endpoint' as const, name: 'chat', model: 'known-answer', ...engine };
  const sizes = { context_length: null, parallel: null, cpu_millis: 1000, memory_bytes: 2 ** 30 };
  const none = { begun: false, over: false, erase: false, secrets: null };
  const facts = { ...none, trust: 'owner' as const, sharing: 'private' as const, driver: 'sim' };
  return { ...run, action, ...facts, spec: action === 'run' ? { ...spec, ...sizes } : null };
}
