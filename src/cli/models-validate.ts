/**
 * `einsora models validate`: what the validator says of a file or folder here, without a control
 * plane; or of a model that a machine keeps, by that machine.
 */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { formatBytes } from '../core/format.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { checkModel, type JsonOption } from './models.ts';
import { oneLine, printData, printJson, say, tint } from './output.ts';

type Finding = { code: string; rule: string | null; message: string };
type Result = { what: string; ok: boolean; summary: string | null; findings: Finding[] };

export async function validate(
  context: Context,
  names: string[],
  options: JsonOption,
): Promise<number> {
  const results: Result[] = [];
  for (const name of names) {
    const path = resolve(context.io.cwd, name);
    results.push(existsSync(path) ? await here(path) : await there(context, name));
  }
  if (options.json) printJson(context, { items: results });
  else for (const result of results) show(context, result);
  return exitCode(results.every(({ ok }) => ok) ? 'ok' : 'failed');
}

async function here(path: string): Promise<Result> {
  const { validateModel } = await import('../models/validate.ts');
  const verdict = await validateModel(path);
  if (!verdict.ok) {
    const { code, rule, message } = verdict;
    return { what: path, ok: false, summary: null, findings: [{ code, rule, message }] };
  }
  const { format, architecture, tensor_count, file_bytes } = verdict.model;
  const parts = [format, architecture, `${tensor_count} tensors`, formatBytes(file_bytes)];
  return { what: path, ok: true, summary: parts.filter(Boolean).join(', '), findings: [] };
}

async function there(context: Context, name: string): Promise<Result> {
  const { source, checked } = await checkModel(context, name);
  const { ok, code, rule, message } = checked;
  const findings = ok ? [] : [{ code: code ?? 'model_file_invalid', rule, message }];
  return { what: source, ok, summary: ok ? message : null, findings };
}

function show(context: Context, { what, ok, summary, findings }: Result): void {
  const mark = tint(context, context.io.stdout, ok ? 'green' : 'red', ok ? '✔' : '✘');
  printData(context, `${mark} ${oneLine(what)}${summary === null ? '' : `: ${oneLine(summary)}`}`);
  for (const { code, rule, message } of findings) {
    printData(context, `  ${code}${rule === null ? '' : ` (${rule})`}: ${oneLine(message)}`);
  }
  if (!ok) say(context, '  fix: fetch it again from its publisher, as GGUF or safetensors');
}
