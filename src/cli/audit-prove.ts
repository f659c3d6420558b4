/**
 * `einsora audit export` and `verify`: the sealed log as a file, and whether it is as it was
 * sealed.
 *
 * Invariants: an export of the same seals is the same text, byte for byte; the check happens here,
 * not at the control plane, which would be judging itself; with `--key` and `--anchors` from
 * another place, not even who owns the control plane can rewrite what was anchored.
 */
import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import {
  type Anchor,
  anchorText,
  type ChainCheck,
  type ChainReport,
  checkChain,
} from '../core/activity-chain.ts';
import { canonicalJson } from '../core/canonical-json.ts';
import { isSignature } from '../lib/ed25519.ts';
import { digest } from '../lib/secret.ts';
import {
  type Header,
  type LogPart,
  readAnchorFile,
  readExport,
  readServer,
} from './audit-source.ts';
import { CliError } from './cli-error.ts';
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { momentOf, momentText } from './moment.ts';
import { oneLine, printData, printJson, say, tint } from './output.ts';

export type ExportOptions = { from?: string; to?: string; tenant?: string; output?: string };

export async function exportLog(context: Context, options: ExportOptions): Promise<number> {
  const now = context.io.clock.now();
  const { tenant, output } = options;
  const range = {
    ...(tenant === undefined ? {} : { tenant }),
    ...(options.from === undefined ? {} : { from: momentOf(options.from, now) }),
    ...(options.to === undefined ? {} : { to: momentOf(options.to, now) }),
  };
  const file = output === undefined ? null : openSync(output, 'wx', 0o600);
  const counts = { rows: 0, seals: 0, anchors: 0 };
  const put = (kind: string, value: object) => {
    const line = canonicalJson({ kind, ...value });
    if (file === null) printData(context, line);
    else writeSync(file, `${line}\n`);
  };
  try {
    for await (const part of readServer(openClient(context), range)) writePart(part, counts, put);
    if (file !== null) fsyncSync(file);
  } finally {
    if (file !== null) closeSync(file);
  }
  const { rows, seals, anchors } = counts;
  const where = output === undefined ? '' : ` in ${output}`;
  const what = `${counted(rows, 'row')} under ${counted(seals, 'seal')}`;
  say(context, `${what}, ${counted(anchors, 'anchor')}${where}`);
  return exitCode('ok');
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

type Counts = { rows: number; seals: number; anchors: number };

function writePart(part: LogPart, counts: Counts, put: (kind: string, value: object) => void) {
  if (part.kind === 'header') put('header', part.header);
  else if (part.kind === 'seal') {
    for (const row of part.rows) put('row', row);
    put('seal', part.seal);
    counts.rows += part.rows.length;
    counts.seals += 1;
  } else if (part.kind === 'anchor') {
    put('anchor', part.anchor);
    counts.anchors += 1;
  } else put('end', counts);
}

export type VerifyOptions = { tenant?: string; key?: string; anchors?: string; json?: boolean };

export async function verifyLog(
  context: Context,
  file: string | undefined,
  options: VerifyOptions,
): Promise<number> {
  const { tenant } = options;
  const parts =
    file === undefined
      ? readServer(openClient(context), tenant === undefined ? {} : { tenant })
      : readExport(file);
  const kept = options.anchors === undefined ? [] : await readAnchorFile(options.anchors);
  const { header, report } = await check(parts, kept, options.key);
  const holds = report.problems.length === 0;
  const { public_key, first_seal } = header;
  if (options.json) printJson(context, { holds, public_key, first_seal, ...report });
  else sayReport(context, header, report);
  return exitCode(holds ? 'ok' : 'failed');
}

async function check(parts: AsyncIterable<LogPart>, kept: Anchor[], key: string | undefined) {
  let header: Header | null = null;
  let chain: ChainCheck | null = null;
  const anchors = new Map<string, Anchor>();
  const keep = (anchor: Anchor) => anchors.set(`${anchor.number} ${anchor.signature}`, anchor);
  for await (const part of parts) {
    if (part.kind === 'header') {
      header = part.header;
      const trusted = key ?? header.public_key;
      chain = checkChain(
        { ...header, first_number: header.first_seal },
        { digest, isSigned: (anchor) => isSignedBy(trusted, anchor) },
      );
      for (const anchor of kept) if (anchor.tenant_id === header.tenant_id) keep(anchor);
    } else if (header === null || chain === null) break;
    else if (part.kind === 'seal') chain.seal(part.seal, part.rows);
    else if (part.kind === 'anchor') keep(part.anchor);
    else return { header, report: chain.finish([...anchors.values()], part.head_seq) };
  }
  throw new CliError({ code: 'export_incomplete', message: 'The log has no end.', exit: 'failed' });
}

function isSignedBy(public_key: string, anchor: Anchor): boolean {
  if (anchor.public_key !== public_key) return false;
  return isSignature(public_key, anchorText(anchor), anchor.signature);
}

function sayReport(context: Context, header: Header, report: ChainReport): void {
  const { problems, rows, seals, anchors, anchored_until } = report;
  const { stdout } = context.io;
  for (const { code, message } of problems) {
    printData(context, `${tint(context, stdout, 'red', '✘')} ${code}: ${oneLine(message)}`);
  }
  const what = `${counted(rows, 'row')} under ${counted(seals, 'seal')}`;
  const mark = problems.length === 0 ? tint(context, stdout, 'green', '✔') : '';
  const verdict = problems.length === 0 ? 'are as they were sealed' : 'were looked at';
  printData(context, `${mark} ${what} ${verdict}`.trim());
  const until = anchored_until === null ? '' : `, the newest of ${momentText(anchored_until)} UTC`;
  printData(context, `  anchors  ${anchors} ${anchors === 1 ? 'holds' : 'hold'}${until}`);
  printData(context, `  key      ${oneLine(header.public_key)}`);
  if (header.first_seal > 1)
    say(context, `This is a part of the log, from seal ${header.first_seal}.`);
}
