/**
 * What every engine must come to when it is asked through the gateway: the same answers, the same
 * counts, the same errors, whichever it is. Each serves the known answer.
 */
import { request } from 'node:http';
import type { Socket } from 'node:net';
import { after, before, test } from 'node:test';
import type { GatewayApi, RequestRecord } from '../../src/gateway/request-record.ts';
import { type Rig, replica, send, smol, startRig, storedKey } from '../lib/gateway-rig.ts';
import {
  type AtEngine,
  answerRules,
  apartRules,
  type Fields,
  limitRules,
  refusalRules,
  responseRules,
} from './engine-rules.ts';

export type EngineUnderTest = {
  /** The adapter's name. */
  engine: string;
  /** Under which its own API knows the model. */
  own_model: string;
  /** Whether it refuses a prompt that is too long. */
  has_limit: boolean;
  has_responses: boolean;
  /**
   * What it reuses of prompts where several tenants prompt it: nothing, or what the same tenant
   * asked; null: it has no way of its own to keep them apart.
   */
  apart: 'nothing' | 'own' | null;
  start(): Promise<{ dial(): Promise<Socket>; stop(): Promise<void> }>;
};

const paths = {
  chat: '/v1/chat/completions',
  completions: '/v1/completions',
  responses: '/v1/responses',
  embeddings: '/v1/embeddings',
  rerank: '/v1/rerank',
} as const satisfies Record<GatewayApi, string>;

export function engineContract(
  under: EngineUnderTest,
  options: { skip?: string | false; timeout?: number } = {},
): void {
  let rig: Rig | null = null;
  let engine: Awaited<ReturnType<EngineUnderTest['start']>> | null = null;
  const records: RequestRecord[] = [];
  let asking = { tenant_id: storedKey.tenant_id, is_apart: false };
  before(async () => {
    if (options.skip) return;
    const started = await under.start();
    engine = started;
    const endpoint = { ...smol(replica).endpoint, engine: under.engine };
    rig = await startRig({
      findKey: async () => ({ ...storedKey, tenant_id: asking.tenant_id }),
      findEndpoint: async () => ({
        ...{ ok: true, endpoint: { ...endpoint, is_apart: asking.is_apart } },
      }),
      dial: () => started.dial(),
      record: (record) => void records.push(record),
    });
  }, options);
  after(async () => {
    await rig?.close();
    await engine?.stop();
  });
  const there = <T>(value: T | null): T => {
    if (value === null) throw new Error('it was not started');
    return value;
  };
  const at: AtEngine = {
    under,
    ask(api, fields) {
      const body = { model: 'smol', temperature: 0, max_tokens: 20, ...fields };
      return send(there(rig), { path: paths[api], body });
    },
    async own(api, fields) {
      const connection = await there(engine).dial();
      return post(connection, paths[api], { ...fields, model: under.own_model });
    },
    asTenant(tenant_id, is_apart) {
      asking = { tenant_id, is_apart };
    },
    async lastUse() {
      await there(rig).settled();
      return records.at(-1)?.use;
    },
  };
  const rules = [
    ...[...answerRules, ...refusalRules],
    ...(under.apart === null ? [] : apartRules),
    ...(under.has_limit ? limitRules : []),
    ...(under.has_responses ? responseRules : []),
  ];
  for (const [name, body] of rules) test(`${under.engine}: ${name}`, options, () => body(at));
}

/** One call of the engine itself. */
function post(connection: Socket, path: string, body: Fields): Promise<string> {
  const text = Buffer.from(JSON.stringify(body));
  const headers = { 'Content-Type': 'application/json', 'Content-Length': text.length };
  return new Promise((resolve, reject) => {
    const how = { method: 'POST', path, headers, createConnection: () => connection };
    const asked = request(how, (answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      answer.on('end', () => {
        connection.destroy();
        resolve(Buffer.concat(chunks).toString('utf8'));
      });
    });
    asked.on('error', reject);
    asked.end(text);
  });
}
