/**
 * A deployment of three tenants behind its real HTTP server, and anything asked of it.
 *
 * Every answer is held against the contract: no failure of ours, its shape that of its schema, its
 * status that of its code, and in it nothing that belongs to another tenant.
 *
 * Invariants: what is asked follows from the steps given, so that a failure shrinks and replays;
 * the clock stands still but for what a step lets pass.
 */
import assert from 'node:assert/strict';
import type { z } from 'zod';
import { errorSchema } from '../../src/contract/errors.ts';
import { routes } from '../../src/contract/routes.ts';
import { listen } from '../../src/controlplane/server.ts';
import { reasons } from '../../src/core/reasons.ts';
import { systemClock } from '../../src/lib/clock.ts';
import type { Call } from './api-calls.ts';
import { createTenants, type Principal } from './api-tenants.ts';
import type { FakeClock } from './fake-clock.ts';
import { startFakeHub } from './fake-hub.ts';
import { createRig, idle_backend, keepingLog, type Rig } from './rig.ts';
import { simFilesOf } from './rig-files.ts';

export type FuzzReport = {
  asked: number;
  accepted: number;
  /** Routes that accepted a call. */
  reached: Set<string>;
  slowest_ms: number;
  slowest: string;
};

/** On a busy machine of two cores; an answer takes a few milliseconds on an idle one. */
const slowest_ms = 10_000;
const gateway_stub = {
  handle: async (_: unknown, response: { end(text: string): void }) => void response.end('{}'),
  close: async () => {},
};

/** `spoil` may change an answer before it is looked at, to show that the looking finds it. */
export async function playCalls(
  calls: readonly Call[],
  report: FuzzReport,
  spoil: (text: string, rig: Rig) => string = (text) => text,
): Promise<void> {
  const hub = await startFakeHub();
  hub.put('owner/repo', 'model-q4.gguf', Buffer.alloc(64));
  const places = { hub_url: hub.url, trusted_origins: [hub.url, hub.files_origin] };
  const files = simFilesOf(systemClock);
  const rig = await createRig({ places, backend: { ...idle_backend, files } });
  const tenants = await createTenants(rig);
  const { api, clock, random } = rig;
  const lines: Parameters<typeof keepingLog>[0] = [];
  const listening = await listen(0, {
    ...{ api, clock, random, log: keepingLog(lines), sites: rig.sites, upgrades: rig.upgrades },
    gateway: gateway_stub as never,
  });
  const url = `http://localhost:${listening.port}`;
  try {
    for (const call of calls) {
      if (call.kind === 'pass') {
        await clock.advance(call.ms);
        await tenants.work();
        continue;
      }
      const asked = tenants.resolve(call);
      const began = systemClock.monotonic();
      const waiting = fetch(`${url}${asked.path}`, asked.init);
      const answer = await passTimeUntil(waiting, clock);
      const text = spoil(await readAnswer(answer), rig);
      const ms = systemClock.monotonic() - began;
      const what = `${asked.init.method} ${asked.path} as ${asked.principal?.name ?? 'nobody'}`;
      if (ms > report.slowest_ms) Object.assign(report, { slowest_ms: ms, slowest: what });
      assert.ok(ms < slowest_ms, `${what} took ${ms} ms`);
      const failed = () => JSON.stringify(lines.filter(({ level }) => level === 'error'));
      // The agents here work between calls: one that is asked meanwhile is told as silent.
      const is_silent = answer.status === 503 && text.includes('"machine_silent"');
      assert.ok(answer.status < 500 || is_silent, `${what}: ${answer.status} ${text} ${failed()}`);
      checkShape(call, answer, text, what);
      // Where nobody is asked for a proof, the caller is whoever holds the link that is sent.
      const by_link = routes[call.route].auth.who === 'anyone';
      if (!by_link) await checkNothingForeign(tenants, asked, text, what);
      report.asked += 1;
      if (answer.ok) {
        report.accepted += 1;
        report.reached.add(call.route);
      }
      await tenants.learn(asked, answer.status, text);
    }
  } finally {
    await listening.close();
    await rig.close();
    await hub.close();
  }
}

/** What asks a hub waits by the clock that stands still. */
async function passTimeUntil(waiting: Promise<Response>, clock: FakeClock): Promise<Response> {
  let answered = false;
  const over = () => {
    answered = true;
  };
  waiting.then(over, over);
  for (let round = 0; round < 100 && !answered; round += 1) {
    await Promise.race([waiting, systemClock.sleep(100)]);
    if (!answered) await clock.advance(5000);
  }
  return waiting;
}

/** A stream that stays open has no end to wait for. */
async function readAnswer(answer: Response): Promise<string> {
  if (!answer.headers.get('content-type')?.startsWith('text/event-stream')) return answer.text();
  const reader = answer.body?.getReader();
  const first = await reader?.read();
  await reader?.cancel();
  return first?.value === undefined ? '' : Buffer.from(first.value).toString('utf8');
}

type Answers = Record<string, { content?: Record<string, { schema: unknown }> }>;

function checkShape(call: Call & { kind: 'ask' }, answer: Response, text: string, what: string) {
  const type = answer.headers.get('content-type') ?? '';
  assert.ok(answer.headers.get('x-request-id'), what);
  const declared = (routes[call.route].responses as Answers)[String(answer.status)];
  if (declared !== undefined) {
    const schema = declared.content?.['application/json']?.schema;
    if (schema === undefined) return;
    assert.match(type, /^application\/json/, what);
    const parsed = (schema as z.ZodType).safeParse(JSON.parse(text));
    assert.ok(parsed.success, `${what}: ${parsed.error?.message}\n${text.slice(0, 2000)}`);
    return;
  }
  assert.match(type, /^application\/json/, `${what}: ${answer.status} ${text.slice(0, 200)}`);
  const { error } = errorSchema.parse(JSON.parse(text));
  const reason = (reasons as Record<string, { status: number }>)[error.code];
  assert.equal(reason?.status, answer.status, `${what}: ${text}`);
}

type Tenants = Awaited<ReturnType<typeof createTenants>>;
type Asked = { principal: Principal | null };

/** Ids and names of other tenants, but for those that the caller's own people said before. */
async function checkNothingForeign(tenants: Tenants, asked: Asked, text: string, what: string) {
  const { principal } = asked;
  if (principal === null || principal.role === 'operator') return;
  for (const found of text.match(tenants.telling) ?? []) {
    if (tenants.hasSaid(principal.tenant, found)) continue;
    const owner = await tenants.ownerOf(found);
    const own = owner === null || owner === principal.tenant;
    assert.ok(own, `${what}: the answer holds ${found} of tenant ${owner}\n${text.slice(0, 2000)}`);
  }
}
