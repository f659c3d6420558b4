/**
 * A rig whose workloads run on the sim driver, with programs to start beside them over WebSockets.
 */
import { WebSocket } from 'ws';
import type { ExecTellMessage } from '../../src/contract/exec.ts';
import { exec_protocol, frameOf, readFrame } from '../../src/contract/exec-frame.ts';
import type { ApiDeps } from '../../src/controlplane/api-deps.ts';
import type { RunKey } from '../../src/core/run.ts';
import type { Driver } from '../../src/drivers/driver.ts';
import { createSimDriver } from '../../src/drivers/sim.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { seededRandom } from '../../src/lib/random.ts';
import type { ExecSession } from '../../src/lib/session.ts';
import { createSiteRig, type Notebook, type SiteRig } from './site-rig.ts';

export type ExecRig = {
  site: SiteRig;
  driver: Driver;
  /** What was started, in order. */
  sessions: ExecSession[];
  lab: Notebook;
  /** Workloads that were woken, in order: the lab runs again at once. */
  woken: string[];
  /** Opens a WebSocket to the exec of a workload. */
  dial(workload: string, headers?: Record<string, string>, protocol?: string): ExecClient;
  close(): Promise<void>;
};

const never = new AbortController().signal;

export async function createExecRig(): Promise<ExecRig> {
  const woken: string[] = [];
  const driver = createSimDriver({ clock: systemClock, random: seededRandom(3) });
  const sessions: ExecSession[] = [];
  const ready = async (run: RunKey) => {
    const spec = { argv: ['play'], env: {}, mounts: [], network: 'none' as const, ports: [] };
    await driver.start({ ...spec, run, spec_hash: 'h', memory_bytes: 1, cpu_millis: 1 }, never);
  };
  const backend: ApiDeps['backend'] = {
    dial: (_machine, run, port) => driver.dial(run, port),
    connect: (_machine, run, port) => driver.connect(run, port),
    logs: (_machine, run, offset, limit) => driver.logs(run, offset, limit),
    async exec(_machine, run, ask, signal) {
      await ready(run);
      const session = await driver.exec(run, ask, signal);
      sessions.push(session);
      return session;
    },
    async files(_machine, run) {
      await ready(run);
      return driver.files(run);
    },
  };
  const site: SiteRig = await createSiteRig({
    ...{ clock: systemClock, backend },
    async wake(workload_id) {
      woken.push(workload_id);
      if (workload_id === lab.id) await site.move(lab, 'running');
    },
  });
  const lab = await site.addNotebook();
  return {
    ...{ site, driver, sessions, lab, woken },
    dial(
      workload,
      headers = { authorization: `Bearer ${site.rig.token}` },
      protocol = exec_protocol,
    ) {
      const url = `ws://localhost:${site.port}/v1/workloads/${workload}/exec`;
      return openClient(new WebSocket(url, protocol, { headers }));
    },
    close: () => site.close(),
  };
}

export type ExecClient = {
  ws: WebSocket;
  said: ExecTellMessage[];
  bytes: { stdout: Buffer[]; stderr: Buffer[] };
  /** Resolves when it is open; rejects with the status of a refusal. */
  opened: Promise<void>;
  closed: Promise<number>;
  tell(message: object): void;
  type(bytes: string | Buffer): void;
  /** What came on stdout so far. */
  out(): string;
  until(found: () => boolean): Promise<void>;
};

/** Bytes are acknowledged by the test alone, through `tell`. */
function openClient(ws: WebSocket): ExecClient {
  const said: ExecTellMessage[] = [];
  const bytes: ExecClient['bytes'] = { stdout: [], stderr: [] };
  const looking = new Set<() => void>();
  const look = () => {
    for (const one of [...looking]) one();
  };
  const opened = new Promise<void>((resolve, reject) => {
    ws.once('open', () => resolve());
    ws.once('unexpected-response', (_, response) => {
      response.resume();
      ws.terminate();
      reject(new Error(String(response.statusCode)));
    });
    ws.on('error', reject);
  });
  opened.catch(() => {});
  ws.on('message', (data: Buffer, is_binary) => {
    if (is_binary) {
      const frame = readFrame(data);
      if (frame !== null && frame.channel !== 'stdin') bytes[frame.channel].push(frame.bytes);
    } else said.push(JSON.parse(String(data)) as ExecTellMessage);
    look();
  });
  const closed = new Promise<number>((resolve) =>
    ws.once('close', (code) => {
      look();
      resolve(code);
    }),
  );
  return {
    ...{ ws, said, bytes, opened, closed },
    tell: (message) => ws.send(JSON.stringify(message)),
    type: (typed) => ws.send(frameOf('stdin', Buffer.from(typed))),
    out: () => Buffer.concat(bytes.stdout).toString(),
    until(found) {
      return new Promise((resolve, reject) => {
        const check = () => {
          if (!found() && ws.readyState !== ws.CLOSED) return;
          looking.delete(check);
          if (found()) resolve();
          else reject(new Error(`it closed before: ${JSON.stringify(said)}`));
        };
        looking.add(check);
        check();
      });
    },
  };
}
