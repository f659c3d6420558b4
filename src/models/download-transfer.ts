/**
 * The transfer of one file's bytes onto the disk: from where the partial file ends, to its end.
 *
 * Invariants: bytes are written where they belong, so that the length of the partial file is what
 * has come; no more than was announced is ever kept; a partial file goes on only by an answer that
 * says exactly from where; a first answer that is no model is thrown away at its first bytes.
 */
import type { FileHandle } from 'node:fs/promises';
import { hubRefusal, tokenOf } from './hub.ts';
import type { ModelFormat } from './hub-choice.ts';
import { SourceError, shownUrl } from './source-error.ts';
import { type Answer, ask, bytesOf, type Net } from './source-http.ts';
import type { PlannedFile, SourcePlan } from './source-plan.ts';
import { refusalOf } from './source-status.ts';

export type Transfer = {
  net: Net;
  plan: Pick<SourcePlan, 'hub'>;
  file: PlannedFile;
  /** Open for reading and writing. */
  part: FileHandle;
  signal: AbortSignal;
  /** Bytes on the disk, after each write. */
  onBytes(done: number): void;
};

/** Resolves when every byte is there. What it throws leaves a partial file that can go on. */
export async function transfer(job: Transfer): Promise<void> {
  const { file, part, net } = job;
  const offset = await resumeAt(job);
  job.onBytes(offset);
  if (offset === file.bytes) return;
  const answer = await openAt(job, offset);
  let at: number;
  try {
    at = await startOf(job, answer, offset);
  } catch (error) {
    answer.body.destroy();
    throw error;
  }
  const head: Buffer[] = [];
  for await (const chunk of bytesOf(net, answer, file.name)) {
    if (at < head_bytes && file.format !== null) {
      head.push(chunk);
      checkHead(job, answer, Buffer.concat(head));
    }
    if (at + chunk.length > file.bytes) {
      await part.truncate(0);
      throw failed(job, `more came than the ${file.bytes} bytes that were announced`);
    }
    await writeAll(part, chunk, at);
    at += chunk.length;
    job.onBytes(at);
  }
  if (at < file.bytes) throw broken(job, answer.url, `it ended after ${at} of ${file.bytes} bytes`);
}

/** Enough to know a format by. */
const head_bytes = 16;

async function resumeAt({ file, part, plan }: Transfer): Promise<number> {
  const { size } = await part.stat();
  // Of a plain URL without a validator nobody can say that the rest is of the same file.
  const can_resume = plan.hub !== null || file.digest !== null || file.etag !== null;
  if (size <= file.bytes && (can_resume || size === 0)) return size;
  await part.truncate(0);
  return 0;
}

async function openAt(job: Transfer, offset: number): Promise<Answer> {
  const { net, file, plan, signal } = job;
  const headers: Record<string, string> = {};
  if (offset > 0) headers.range = `bytes=${offset}-`;
  if (offset > 0 && file.etag !== null) headers['if-range'] = file.etag;
  return ask(net, {
    method: 'GET',
    url: file.url,
    headers,
    token: plan.hub === null ? null : tokenOf(plan.hub.hub),
    follow: 'all',
    signal,
  });
}

/** Where the bytes of an answer belong. */
async function startOf(job: Transfer, answer: Answer, offset: number): Promise<number> {
  const { file, part, net, plan } = job;
  const { status, headers, url } = answer;
  if (status === 416) {
    // What we have is longer than, or not of, what there is now.
    await part.truncate(0);
    throw broken(job, url, 'it could not be gone on with');
  }
  if (status !== 200 && status !== 206) {
    if (plan.hub !== null && url.origin === file.url.origin) {
      throw hubRefusal(plan.hub.hub, plan.hub, answer, file.name);
    }
    throw refusalOf(net, answer, file.url, file.name);
  }
  const encoding = headers['content-encoding'] ?? 'identity';
  if (encoding !== 'identity')
    throw failed(job, `${url.host} compresses it (${encoding.slice(0, 20)})`);
  if (status === 206) {
    const range = /^bytes (\d{1,15})-\d{1,15}\/(\d{1,15})$/.exec(headers['content-range'] ?? '');
    if (Number(range?.[1]) === offset && Number(range?.[2]) === file.bytes) return offset;
    await part.truncate(0);
    throw broken(job, url, 'it went on from another place than asked for');
  }
  const length = headers['content-length'];
  if (length !== undefined && Number(length) !== file.bytes) {
    if (/^text\/html\b/i.test(headers['content-type'] ?? ''))
      throw notModel(job, answer, 'a web page');
    throw failed(job, `it is ${length} bytes long, and not the ${file.bytes} that were announced`);
  }
  await part.truncate(0);
  return 0;
}

async function writeAll(part: FileHandle, chunk: Buffer, position: number): Promise<void> {
  let written = 0;
  while (written < chunk.length) {
    const left = chunk.length - written;
    const { bytesWritten } = await part.write(chunk, written, left, position + written);
    written += bytesWritten;
  }
}

function checkHead(job: Transfer, answer: Answer, head: Buffer): void {
  const { format } = job.file;
  if (head.length < head_bytes && head.length < job.file.bytes) return;
  if (format !== null && !isFormat(format, head)) throw notModel(job, answer, kindOf(head));
}

function isFormat(format: ModelFormat, head: Buffer): boolean {
  if (format === 'gguf') return head.subarray(0, 4).toString('latin1') === 'GGUF';
  return head.length > 8 && head.readBigUInt64LE(0) <= 100_000_000n && head[8] === 0x7b;
}

function kindOf(head: Buffer): string {
  const text = head.toString('latin1').trimStart().toLowerCase();
  if (/^<(?:!doctype|html|\?xml|head|body)/.test(text)) return 'a web page';
  if (text.startsWith('version https:')) return 'a pointer to a file, and not the file';
  if (head[0] === 0x1f && head[1] === 0x8b) return 'a gzip archive';
  if (text.startsWith('pk')) return 'a ZIP archive';
  if (head[0] === 0x80 && (head[1] ?? 9) <= 5) return 'a Python pickle';
  return 'something else';
}

/** Not to be tried again. */
function failed({ file }: Transfer, why: string): SourceError {
  return new SourceError('download_failed', { what: file.name, why });
}

/** To be tried again. */
function broken({ file }: Transfer, url: URL, why: string): SourceError {
  const details = { what: file.name, host: url.host, url: shownUrl(url), why };
  return new SourceError('download_failed', details, { temporary: true });
}

function notModel({ file }: Transfer, answer: Answer, kind: string): SourceError {
  const details = { what: file.name, host: answer.url.host, url: shownUrl(file.url), kind };
  return new SourceError('source_not_a_model', details);
}
