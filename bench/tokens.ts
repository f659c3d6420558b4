/**
 * A real llama-server asked through the gateway and past it: how many of its tokens come through,
 * and how much later the first one.
 *
 * Invariants: both ways lead to the same engine, one question at a time, and take turns; figures
 * are medians of pairs; where the engine cannot be had they are null, with the reason.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeError } from '../src/lib/log.ts';
import { writeSlowModel } from '../test/lib/known-answer.ts';
import { type RealEngine, startRealEngine } from '../test/lib/real-engine.ts';
import { startScript } from './child.ts';
import { median, printTable, rounded } from './figures.ts';
import type { Asked } from './gateway-load.ts';

type Way = { socketPath: string } | { host: string; port: number };
type Side = { way: Way; headers: string[] };
type Pair = readonly [past: Answer, through: Answer];
type Answer = { tokens: number; first_ms: number; all_ms: number };

export async function bench({ quick }: { quick: boolean }) {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-bench-'));
  try {
    const model_path = join(folder, 'slow.gguf');
    writeSlowModel(model_path);
    const engine = await startRealEngine({ model_path, context_length: 4096, parallel: 1 });
    const keys = await compare(engine, quick).finally(() => engine.stop());
    printTable(keys);
    return keys;
  } catch (error) {
    const missing = describeError(error).slice(0, 300);
    const keys = { tokens_vs_direct: null, first_token_added_ms: null, missing };
    printTable(keys);
    return keys;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function compare(engine: RealEngine, quick: boolean) {
  const rounds = quick ? 3 : 15;
  const questions = quick ? 5 : 15;
  const tokens = quick ? 60 : 200;
  const script = join(import.meta.dirname, 'gateway-child.ts');
  const gateway = await startScript<Asked>(script, ['product', engine.socket]);
  const { port, headers } = gateway.asked;
  const direct: Side = { way: { socketPath: engine.socket }, headers: [] };
  const ours: Side = { way: { host: '127.0.0.1', port }, headers };
  try {
    for (const side of [direct, ours]) for (let at = 0; at < 20; at += 1) await ask(side, 4);
    const long: Pair[] = [];
    const short: Pair[] = [];
    for (let round = 0; round < rounds; round += 1) {
      long.push(await inTurn(direct, ours, tokens, round));
      for (let at = 0; at < questions; at += 1) short.push(await inTurn(direct, ours, 4, at));
    }
    const rate = ({ tokens, all_ms }: Answer) => (tokens * 1000) / all_ms;
    const added = short.map(([past, through]) => through.first_ms - past.first_ms);
    return {
      tokens_vs_direct: rounded(median(long.map(([past, us]) => rate(us) / rate(past)))),
      first_token_added_ms: rounded(median(added)),
      tokens_per_s_direct: rounded(median(long.map(([past]) => rate(past))), 1),
      tokens_per_s_product: rounded(median(long.map(([, us]) => rate(us))), 1),
      first_token_ms_direct: rounded(median(short.map(([past]) => past.first_ms))),
      first_token_ms_product: rounded(median(short.map(([, us]) => us.first_ms))),
      ...{ rounds, questions: short.length, missing: null },
    };
  } finally {
    gateway.stop();
  }
}

/** Both ways, the one first that was last before. */
async function inTurn(past: Side, through: Side, tokens: number, turn: number): Promise<Pair> {
  if (turn % 2 === 0) return [await ask(past, tokens), await ask(through, tokens)];
  const second = await ask(through, tokens);
  return [await ask(past, tokens), second];
}

const content = /"content":"(?!")/g;

/** One streamed answer of so many tokens, over a connection of its own. */
function ask({ way, headers }: Side, max_tokens: number): Promise<Answer> {
  const messages = [{ role: 'user', content: 'Go on.' }];
  const body = JSON.stringify({ model: 'smol', messages, max_tokens, stream: true });
  const own = headers.map((line) => line.split(': '));
  return new Promise((resolve, reject) => {
    const began = performance.now();
    let first_ms = Number.NaN;
    let text = '';
    const asked = request({
      ...{ ...way, agent: false, method: 'POST', path: '/v1/chat/completions' },
      headers: { 'Content-Type': 'application/json', ...Object.fromEntries(own) },
    });
    asked.on('error', reject);
    asked.on('response', (answer) => {
      answer.setEncoding('utf8');
      answer.on('data', (piece: string) => {
        text += piece;
        if (Number.isNaN(first_ms) && content.test(piece)) first_ms = performance.now() - began;
        content.lastIndex = 0;
      });
      answer.on('error', reject);
      answer.on('end', () => {
        const tokens = text.match(content)?.length ?? 0;
        const is_whole = answer.statusCode === 200 && text.includes('[DONE]');
        if (!is_whole || tokens === 0) return reject(new Error(`no whole answer: ${text}`));
        resolve({ tokens, first_ms, all_ms: performance.now() - began });
      });
    });
    asked.end(body);
  });
}
