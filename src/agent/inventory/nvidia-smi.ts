/**
 * What `nvidia-smi` answered, sorted into what it means.
 *
 * Invariants: an answer that cannot be understood is `failed` with its text, never "no GPU"; a
 * figure that reads [N/A] or ERR! is 0 and not a guess.
 */
import type { ExecResult } from '../../lib/exec.ts';
import { plainText } from '../../lib/text.ts';

export type NvidiaGpu = { name: string; uuid: string; memory_bytes: number };

export type NvidiaAnswer =
  | { kind: 'gpus'; gpus: NvidiaGpu[] }
  | { kind: 'not_installed' }
  | { kind: 'timeout' }
  | { kind: 'no_driver' }
  | { kind: 'mismatch' }
  | { kind: 'no_permission' }
  | { kind: 'lost' }
  | { kind: 'no_devices' }
  | { kind: 'failed'; text: string };

export const nvidia_query = ['--query-gpu=name,uuid,memory.total', '--format=csv,noheader,nounits'];
export const nvidia_timeout_ms = 10_000;

export function readNvidiaAnswer(result: ExecResult): NvidiaAnswer {
  if (result.outcome === 'failed') return { kind: 'not_installed' };
  if (result.outcome !== 'exited') return { kind: 'timeout' };
  // Which stream carries the complaint differs between versions.
  const text = plainText(`${result.stdout}\n${result.stderr}`).trim();
  if (/version mismatch/i.test(text)) return { kind: 'mismatch' };
  if (result.code === 15 || /unable to determine the device handle/i.test(text)) {
    return { kind: 'lost' };
  }
  if (result.code === 9 || /couldn't communicate with the NVIDIA driver/i.test(text)) {
    return { kind: 'no_driver' };
  }
  if (result.code === 12) return { kind: 'not_installed' }; // its library is not there
  if (result.code === 4 || /insufficient permissions/i.test(text)) return { kind: 'no_permission' };
  if (/no devices were found/i.test(text)) return { kind: 'no_devices' };
  const gpus = result.code === 0 ? parseGpus(result.stdout) : [];
  if (gpus.length > 0) return { kind: 'gpus', gpus };
  return { kind: 'failed', text: firstLine(text) || `exit code ${result.code}` };
}

function parseGpus(csv: string): NvidiaGpu[] {
  return plainText(csv)
    .split('\n')
    .flatMap((line): NvidiaGpu[] => {
      const [name, uuid, mebibytes] = line.split(',').map((field) => field.trim());
      if (!name || !uuid?.startsWith('GPU-')) return [];
      return [{ name, uuid, memory_bytes: (Number(mebibytes) || 0) * 2 ** 20 }];
    });
}

function firstLine(text: string): string {
  return (text.split('\n')[0] ?? '').slice(0, 200);
}
