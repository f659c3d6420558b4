/**
 * Validates one file, whatever it is: by its content, never by its name.
 *
 * Invariants: never throws for a file's sake; a file that passes is GGUF or safetensors to the last
 * byte, and neither a ZIP archive nor a pickle besides.
 */
import { constants, type FileHandle, open } from 'node:fs/promises';
import { isErrno } from '../lib/files.ts';
import { plainText } from '../lib/text.ts';
import { type GgufFile, walkGguf } from './gguf.ts';
import { type SafetensorsFile, walkSafetensors } from './safetensors.ts';
import { refusePolyglots } from './validate-polyglot.ts';
import { ModelReader } from './validate-reader.ts';
import { type ModelRule, must, Refusal } from './validate-refusal.ts';
import { formatOf, sniff, sniff_bytes } from './validate-sniff.ts';

export type CheckedFile =
  | { format: 'gguf'; gguf: GgufFile }
  | { format: 'safetensors'; safetensors: SafetensorsFile };

export type Refused = {
  ok: false;
  code: 'model_file_invalid' | 'model_file_unreadable';
  /** Id of the rule that was broken. */
  rule: ModelRule;
  /** Sentences for a person. */
  message: string;
  /** The file, and the byte of it that the walk had come to; null where it was not walked. */
  where: { path: string; byte: number | null };
};

/** Other than by a defect of ours it does not reject. */
export async function checkFile(path: string): Promise<({ ok: true } & CheckedFile) | Refused> {
  let file: FileHandle | null = null;
  let reader: ModelReader | null = null;
  try {
    file = await openFile(path);
    const stats = await file.stat();
    must(stats.isFile(), 'not_a_file');
    reader = new ModelReader(file, stats.size);
    const checked = await walk(reader);
    await refusePolyglots(reader);
    return { ok: true, ...checked };
  } catch (error) {
    return refused(error, path, reader?.offset ?? null);
  } finally {
    await file?.close();
  }
}

/** Without O_NONBLOCK a named pipe would hold us until somebody writes to it. */
export function openFile(path: string): Promise<FileHandle> {
  return open(path, constants.O_RDONLY | constants.O_NONBLOCK);
}

/** What a thrown refusal, or an error of the system, is for the caller. Throws on any other. */
export function refused(error: unknown, path: string, byte: number | null = null): Refused {
  const refusal = error instanceof Refusal ? error : fromSystem(error);
  const { code, rule } = refusal;
  return { ok: false, code, rule, message: plainText(refusal.message), where: { path, byte } };
}

async function walk(reader: ModelReader): Promise<CheckedFile> {
  const head = await reader.readAt(0, sniff_bytes);
  const format = formatOf(head);
  must(format !== null, 'unknown_format', () => sniff(head));
  return format === 'gguf'
    ? { format, gguf: await walkGguf(reader) }
    : { format, safetensors: await walkSafetensors(reader) };
}

function fromSystem(error: unknown): Refusal {
  if (isErrno(error, 'ENOENT') || isErrno(error, 'ENOTDIR')) return new Refusal('missing');
  if (!(error instanceof Error) || !('syscall' in error)) throw error;
  return new Refusal('unreadable', `The system says: ${error.message}.`);
}
