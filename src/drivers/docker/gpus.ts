/**
 * GPUs of containers: by which names the engine hands them over, and whether they are in there.
 *
 * Invariants: an engine that lists its devices is asked before anything is made; a container in
 * which other GPUs are seen than those that were given, more or fewer, does not go on; one whose
 * program has ended meanwhile is told by that end.
 */
import type { IncomingMessage } from 'node:http';
import { type Clock, withDeadline } from '../../lib/clock.ts';
import { plainText } from '../../lib/text.ts';
import { type Engine, isOlder } from './engine.ts';
import { driverError, EngineRefusal, isStatus, oneLine } from './engine-error.ts';
import type { EngineInfo } from './probe.ts';

/** From here on the engine hands GPUs over by their names in CDI. */
const cdi_api = '1.44';
const renew = 'nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml';
/** The first look at a GPU may have to load its driver. */
const look_patience_ms = 60_000;
const output_limit_bytes = 64 * 1024;

/** What CDI calls a GPU. */
export function cdiName(uuid: string): string {
  return `nvidia.com/gpu=${uuid}`;
}

/** The names to ask the engine for. Inside Windows (WSL2) all GPUs have one, so it gives them all. */
export async function gpuNames(engine: Engine, uuids: readonly string[]): Promise<string[]> {
  if (uuids.length === 0) return [];
  const { api, engine: version, kernel } = await engine.version();
  if (isOlder(api, cdi_api)) {
    const needs = `CDI needs ${cdi_api} (Docker 25 or later)`;
    throw notInjected(`Docker ${version} speaks API ${api}, and ${needs}`);
  }
  const info = (await engine.json({ method: 'GET', path: '/info' })) as EngineInfo | null;
  const listed = info?.DiscoveredDevices?.map(({ ID }) => ID);
  const names = uuids.map(cdiName);
  const missing = uuids.find((uuid) => listed !== undefined && !listed.includes(cdiName(uuid)));
  const is_wsl = /microsoft/i.test(kernel);
  if (is_wsl && (listed === undefined || listed.includes(cdiName('all')))) {
    return missing === undefined && listed !== undefined ? names : [cdiName('all')];
  }
  if (missing === undefined) return names;
  throw notInjected(`CDI knows no ${missing}; renew it: ${renew}`);
}

/** Looks from inside a container that began; rejects with `gpu_not_injected`. */
export async function proveGpus(
  { engine, clock }: { engine: Engine; clock: Clock },
  container_id: string,
  uuids: readonly string[],
): Promise<void> {
  if (uuids.length === 0) return;
  const found = await withDeadline(
    clock,
    look_patience_ms,
    'nvidia-smi does not answer in it',
    lookInside(engine, container_id),
  ).catch((error: unknown) => {
    if (error instanceof EngineRefusal) {
      throw notInjected(`nvidia-smi does not run in it: ${oneLine(error.message)}`, error);
    }
    throw notInjected(error instanceof Error ? error.message : String(error), error);
  });
  if (found === null) return;
  const seen = gpusSeen(found.output, uuids);
  if (seen.length === 0) {
    const said = oneLine(found.output) || `exit code ${found.code ?? 'unknown'}`;
    throw notInjected(`nvidia-smi sees none in it: ${said}`);
  }
  const lacks = uuids.filter((uuid) => !seen.includes(uuid));
  if (lacks.length > 0) throw notInjected(`${lacks.join(', ')} is not in it`);
  const others = seen.filter((uuid) => !uuids.includes(uuid));
  if (others.length > 0) throw notInjected(`${others.join(', ')} is in it, and not its own`);
}

/** The UUIDs of `nvidia-smi -L`: of MIG instances where those were given, else of whole GPUs. */
export function gpusSeen(output: string, given: readonly string[]): string[] {
  const all = [...plainText(output).matchAll(/\(UUID: ((?:GPU|MIG)-[\w/-]{1,90})\)/g)].map(
    ([, uuid = '']) => uuid,
  );
  const kind = given.some((uuid) => uuid.startsWith('MIG-')) ? 'MIG-' : 'GPU-';
  return [...new Set(all.filter((uuid) => uuid.startsWith(kind)))];
}

/** Null where the container runs no more. */
async function lookInside(
  engine: Engine,
  container_id: string,
): Promise<{ output: string; code: number | null } | null> {
  try {
    const path = `/containers/${container_id}/exec`;
    // A terminal, so that its output comes as it is.
    const json = { AttachStdout: true, AttachStderr: true, Tty: true, Cmd: ['nvidia-smi', '-L'] };
    const made = (await engine.json({ method: 'POST', path, json })) as { Id?: string } | null;
    const id = String(made?.Id);
    const start = { Detach: false, Tty: true };
    const answer = await engine.open({ method: 'POST', path: `/exec/${id}/start`, json: start });
    const output = await read(answer);
    const state = (await engine.json({ method: 'GET', path: `/exec/${id}/json` })) as {
      ExitCode?: number | null;
    } | null;
    return { output, code: state?.ExitCode ?? null };
  } catch (error) {
    // 409: it is not running (any more), or paused; 404: it is gone.
    const ended = /is not running|is restarting|No such container/i;
    const is_ended = isStatus(error, 404, 409) && ended.test((error as Error).message);
    if (is_ended) return null;
    throw error;
  }
}

async function read(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of answer) {
    size += (chunk as Buffer).length;
    if (size > output_limit_bytes) break;
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function notInjected(why: string, cause?: unknown) {
  return driverError('gpu_not_injected', { why }, cause);
}
