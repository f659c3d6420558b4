/**
 * A failure as the command line shows it: code, sentence, the command that helps, the request's id.
 */
import { type Details, fixOf, isReasonCode, type ReasonCode, sentenceOf } from '../core/reasons.ts';
import type { Config } from './config.ts';
import type { ExitName } from './exit-codes.ts';

export type CliErrorFields = {
  code: string;
  message: string;
  fix?: string | null;
  request_id?: string | null;
  exit: ExitName;
  details?: Details;
};

export class CliError extends Error {
  readonly code: string;
  readonly exit: ExitName;
  readonly request_id: string | null;
  readonly details: Details;
  fix: string | null;
  constructor(fields: CliErrorFields) {
    super(fields.message);
    this.code = fields.code;
    this.exit = fields.exit;
    this.fix = fields.fix ?? null;
    this.request_id = fields.request_id ?? null;
    this.details = fields.details ?? {};
  }
  body(): {
    error: { code: string; message: string; fix: string | null; request_id: string | null };
  } {
    const { code, message, fix, request_id } = this;
    return { error: { code, message, fix, request_id } };
  }
}

/** One row of the table of reasons, as a failure of the command line. */
export function reasonError(code: ReasonCode, details: Details, exit: ExitName): CliError {
  return new CliError({
    code,
    message: sentenceOf(code, details),
    fix: fixOf(code, details),
    exit,
    details,
  });
}

/** A command line that cannot be carried out as written. */
export function usageError(message: string, fix: string | null = null): CliError {
  return new CliError({ code: 'bad_request', message, fix, exit: 'usage' });
}

/** No control plane serves this data folder: says the exact command that starts one. */
export function unreachable(config: Config): CliError {
  const details = { data_dir: config.data_dir };
  const error = reasonError('control_plane_unreachable', details, 'unreachable');
  error.fix = suggested(config, 'up');
  return error;
}

/** A command to type, with the data folder or the context where one was given. */
export function suggested(config: Config, command: string): string {
  return `bin/einsora ${command}${givenPlace(config)}`;
}

/** What helps, as others said it, with the data folder or the context where one was given. */
export function fixHere(config: Config, fix: string | null): string | null {
  const place = givenPlace(config);
  if (fix === null || place === '') return fix;
  if (is_one_command.test(fix)) return needs_place.test(fix) ? fix + place : fix;
  return fix.replaceAll(new RegExp(needs_place, 'g'), `bin/einsora${place} `);
}

const is_one_command = /^bin\/einsora [\w ./<>-]+$/;
/** A command that names no place itself, and is of one. */
const needs_place = /\bbin\/einsora (?!login\b|context\b|[^,;]*--(?:data-dir|context)\b)/;

function givenPlace(config: Config): string {
  if (config.data_dir_given) return ` --data-dir ${shellWord(config.data_dir)}`;
  const { context_name, context_given } = config;
  return context_given && context_name !== null ? ` --context ${shellWord(context_name)}` : '';
}

/** A word that a POSIX shell reads as exactly this text. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** Any failure as one to show. Refusals of `up` are told by their code in the table. */
export function asCliError(error: unknown): CliError {
  if (error instanceof CliError) return error;
  const { code, message, fix, details } = (error ?? {}) as Partial<CliErrorFields>;
  if (typeof code === 'string' && isReasonCode(code)) {
    return new CliError({
      code,
      message: message ?? '',
      fix: fix ?? null,
      details: details ?? {},
      exit: 'failed',
    });
  }
  return new CliError({ code: 'internal', message: message ?? String(error), exit: 'failed' });
}
