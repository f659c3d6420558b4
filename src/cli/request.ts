/**
 * `einsora request`: what one request did: its rows in the activity log, what it moved, and its
 * lines in the control plane's own log where that is on this machine.
 */
import { createReadStream, statSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { RequestReport } from '../contract/activity.ts';
import type { GatewayRequest } from '../contract/request-usage.ts';
import { isId } from '../core/ids.ts';
import { actorText, printActivity } from './audit.ts';
import { CliError, usageError } from './cli-error.ts';
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { momentText } from './moment.ts';
import { oneLine, pairLines, printData, printJson, printTable, say } from './output.ts';

type LogLine = Record<string, unknown>;

/** Of the log's end: what is further back is not looked through. */
const log_bytes = 64 * 1024 * 1024;
const most_lines = 200;

export async function request(
  context: Context,
  id: string,
  options: { json?: boolean },
): Promise<number> {
  if (!isId(id)) {
    const message = `${id} is no id of a request: it stands in X-Request-ID`;
    throw usageError(message, 'bin/einsora request ls');
  }
  const lines = await readLogLines(context, id);
  const report = await readReport(context, id, lines.length > 0);
  if (options.json) {
    printJson(context, { ...report, log: lines });
    return exitCode('ok');
  }
  const outcome = outcomeOf(lines);
  const has_actions = report.actions.length > 0 || report.gateway !== null;
  for (const line of pairLines([
    ['request', id],
    ['answered', outcome],
    ['did', has_actions ? null : 'nothing that is in the activity log'],
    ...(report.gateway === null ? [] : gatewayPairs(report.gateway)),
  ])) {
    printData(context, line);
  }
  const now = context.io.clock.now();
  if (report.actions.length > 0) printActivity(context, report.actions, now, false);
  if (report.events.length > 0) {
    const rows = report.events.map((event) => [
      event.workload_name,
      event.to_state ?? event.kind,
      actorText(event.actor),
      event.message,
    ]);
    printTable(context, ['WORKLOAD', 'STATE', 'BY', 'WHAT'], rows);
  }
  for (const line of lines) printData(context, `  ${logText(line)}`);
  if (lines.length === 0) say(context, 'Its lines in the log of the control plane are not here.');
  return exitCode('ok');
}

/** What was recorded of a question to a model. */
function gatewayPairs(one: GatewayRequest): [string, string | null][] {
  const key = one.last_four === null ? 'the key of a run' : `the key …${one.last_four}`;
  const { prompt_tokens, cached_tokens, completion_tokens } = one;
  const cached = cached_tokens > 0 ? ` (${cached_tokens} of them cached)` : '';
  const about = one.is_estimated ? ', estimated' : '';
  const by = [one.machine_name, one.placed_class].filter((name) => name !== null).join(', ');
  const tries = one.attempts > 1 ? `, the last of ${one.attempts} that were asked` : '';
  const first = one.first_token_ms === null ? '' : `, first content after ${one.first_token_ms} ms`;
  return [
    ['asked', `${one.model || '(no model)'} by ${key}, ${one.api}`],
    ['engine', by === '' ? null : `${by}${tries}`],
    ['ended', `${one.outcome}${one.code === null ? '' : ` (${one.code})`}`],
    ['tokens', `${prompt_tokens} in${cached}, ${completion_tokens} out${about}`],
    ['took', `${one.duration_ms} ms${first}`],
  ];
}

/** Reads and refusals that were counted have no row of their own: then the log alone knows. */
async function readReport(
  context: Context,
  id: string,
  has_lines: boolean,
): Promise<RequestReport> {
  try {
    return await openClient(context).call<RequestReport>('GET', `/v1/requests/${id}`);
  } catch (error) {
    if (!has_lines || !(error instanceof CliError) || error.code !== 'not_found') throw error;
    return { request_id: id, actions: [], events: [], gateway: null };
  }
}

async function readLogLines(context: Context, id: string): Promise<LogLine[]> {
  const path = join(context.config.data_dir, 'einsora.log');
  const found: LogLine[] = [];
  try {
    const start = Math.max(0, statSync(path).size - log_bytes);
    const input = createReadStream(path, { encoding: 'utf8', start });
    for await (const line of createInterface({ input, crlfDelay: Infinity })) {
      if (!line.includes(id) || found.length >= most_lines) continue;
      const parsed = parse(line);
      if (parsed?.request_id === id) found.push(parsed);
    }
  } catch {
    // Another machine, or another user's: what the API says is all there is.
  }
  return found;
}

function parse(line: string): LogLine | null {
  try {
    return JSON.parse(line) as LogLine | null;
  } catch {
    return null;
  }
}

function outcomeOf(lines: LogLine[]): string | null {
  const last = lines.findLast((line) => typeof line.status === 'number');
  if (last === undefined) return null;
  const { method, path, status, duration_ms } = last;
  const what = method === undefined ? 'by the gateway' : `${method} ${path}`;
  return `${what} with ${status} after ${duration_ms} ms`;
}

const shown_apart = new Set(['level', 'time', 'msg', 'request_id']);

function logText(line: LogLine): string {
  const fields = Object.entries(line)
    .filter(([name, value]) => !shown_apart.has(name) && value !== null)
    .map(([name, value]) => `${name}=${value}`);
  const when = typeof line.time === 'number' ? momentText(line.time) : '';
  return oneLine([when, line.msg, ...fields].join(' '));
}
