/**
 * SSH into workloads: who may, into which run, and until when (ADR-0047).
 *
 * Invariants: behind the upgrade's authorisation; another tenant's workload is one that is not
 * there; nothing goes into an endpoint; a visit is bound to one run, and ends with it, with the
 * proof that opened it and with this control plane; each that signed in is in the activity log.
 */
import type { Duplex } from 'node:stream';
import type { HostKey } from '../access/ssh/host-key.ts';
import { createSshServer, type Inside } from '../access/ssh/server.ts';
import type { Backend } from '../backends/backend.ts';
import { EinsoraError } from '../contract/errors.ts';
import { limits } from '../contract/limits.ts';
import { raw_protocol } from '../contract/upgrades.ts';
import { makeId } from '../core/ids.ts';
import { hasShell } from '../core/images.ts';
import { type Details, isReasonCode, sentenceOf } from '../core/reasons.ts';
import type { RunKey } from '../core/run.ts';
import { type AuthorizedKey, parseAuthorizedKeys } from '../core/ssh-key.ts';
import { type Kind, readSpec } from '../core/workload.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError, type Log } from '../lib/log.ts';
import type { Random } from '../lib/random.ts';
import type { Action } from '../store/activity.ts';
import type { WorkloadRow } from '../store/events.ts';
import { findTarget } from '../store/keys.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import { findWorkload } from '../store/workloads.ts';
import { clientRequestId } from './action.ts';
import type { RunWatch } from './run-watch.ts';
import type { Upgrade, UpgradeHandler } from './upgrades.ts';

export type SshDeps = {
  store: EinsoraStore;
  clock: Clock;
  random: Random;
  runs: RunWatch;
  backend: Pick<Backend, 'exec' | 'files' | 'connect'>;
  host_key: HostKey;
  /** A workload is in use. */
  touched(workload_id: string): void;
  /** Wakes it where it was stopped for being idle. */
  wake?(workload_id: string, how: string): Promise<unknown>;
  /** It is in use until the returned function is called. */
  using?(workload_id: string): () => void;
};

export type Ssh = { handle: UpgradeHandler; close(): Promise<void> };

export function createSsh(deps: SshDeps): Ssh {
  const server = createSshServer(deps);

  async function handle(upgrade: Upgrade): Promise<void> {
    const { socket, head, principal, log, request_id, farewell } = upgrade;
    const { row, run, machine_id } = await findRun(deps, upgrade);
    let unused = () => {};
    const signedIn = () => {
      deps.touched(row.id);
      unused = deps.using?.(row.id) ?? unused;
      const noted = { workload_id: row.id, action: actionOf(deps, upgrade) };
      deps.store.transact('noteVisit', noted).catch((error) => {
        // Nobody goes in unseen.
        log.error({ error: describeError(error) }, 'a visit could not be recorded');
        socket.destroy();
      });
    };
    const served = server.serve({
      ...{ socket, user_id: principal.user_id, log, signedIn, keys: keysOf(row) },
      greeting: greetingOf(request_id),
      inside: insideOf(deps, run, machine_id),
      used: () => deps.touched(row.id),
      explain: (error) => explain(error, row.name, log),
    });
    if (head.length > 0) socket.unshift(head);
    farewell(() => served.cut('what you signed in with has ended or was revoked'));
    const unwatch = deps.runs.watch(run, () =>
      served.cut(`${row.name} was stopped, or begun anew`),
    );
    void served.closed.then(() => {
      unwatch();
      unused();
    });
  }

  return { handle, close: () => server.close() };
}

async function findRun(deps: SshDeps, { principal, params, socket }: Upgrade) {
  const { tenant_id } = principal;
  const workload = params.workload ?? '';
  const row = await deps.store.read(findWorkload, { tenant_id, workload });
  if (row === undefined) throw new EinsoraError('not_found', { what: `workload ${workload}` });
  const { id, name, kind } = row;
  if (!hasShell(kind as Kind)) throw new EinsoraError('no_shell', { name, kind });
  if (row.state !== 'running' && row.park_cause === 'idle') await awaken(deps, id, socket);
  const target = await deps.store.read(findTarget, { workload_id: id });
  const { replica, run_epoch, machine_id, state = row.state } = target ?? {};
  const is_there = typeof replica === 'number' && typeof run_epoch === 'number';
  if (state !== 'running' || !is_there || typeof machine_id !== 'string') {
    throw new EinsoraError('not_ready', { name, state });
  }
  const run: RunKey = { workload_id: id, replica, run_epoch };
  return { row, run, machine_id };
}

/** Wakes what was stopped for being idle, and waits for it: OpenSSH's client waits too. */
export async function awaken(
  deps: Pick<SshDeps, 'store' | 'clock' | 'wake'>,
  workload_id: string,
  socket: Pick<Duplex, 'destroyed'>,
  how = 'somebody came by SSH',
): Promise<void> {
  const { store, clock } = deps;
  if (deps.wake === undefined) return;
  await deps.wake(workload_id, how);
  const deadline = clock.monotonic() + limits.wake_hold_ms;
  while (clock.monotonic() < deadline && !socket.destroyed) {
    const now = await store.read(findTarget, { workload_id });
    const is_settled = now === undefined || now.state === 'stopped' || now.state === 'failed';
    if (is_settled || typeof now.run_epoch === 'number') return;
    await clock.sleep(wake_look_ms);
  }
}

const wake_look_ms = 250;

/** Keys that cannot be read let nobody in. */
function keysOf(row: WorkloadRow): AuthorizedKey[] | null {
  const { ssh_public_key } = readSpec(row.spec);
  if (ssh_public_key === null) return null;
  const keys = parseAuthorizedKeys(ssh_public_key);
  return typeof keys === 'string' ? [] : keys;
}

function greetingOf(request_id: string): string {
  const lines = [
    'HTTP/1.1 101 Switching Protocols',
    `Upgrade: ${raw_protocol}`,
    'Connection: Upgrade',
    `X-Request-ID: ${request_id}`,
  ];
  return `${lines.join('\r\n')}\r\n\r\n`;
}

function insideOf({ backend }: SshDeps, run: RunKey, machine_id: string): Inside {
  return {
    exec: (ask, signal) => backend.exec(machine_id, run, ask, signal),
    files: () => backend.files(machine_id, run),
    connect: (port) => backend.connect(machine_id, run, port),
  };
}

/** A driver says what happened; to whom is known here. What nobody foresaw is for the log. */
function explain(error: unknown, name: string, log: Log): string {
  if (error instanceof EinsoraError) return error.message;
  const { code, details } = error as { code?: unknown; details?: Details };
  if (typeof code === 'string' && isReasonCode(code)) return sentenceOf(code, { ...details, name });
  log.warn({ error: describeError(error) }, 'something of SSH failed');
  return 'it failed; the log of the control plane says more';
}

function actionOf(deps: SshDeps, { principal, request, request_id }: Upgrade): Action {
  const { tenant_id, user_id, user_name, via, proof_id } = principal;
  const now = deps.clock.now();
  return {
    ...{ id: makeId(now, deps.random.bytes(10)), tenant_id, user_id, via, proof_id, request_id },
    client_request_id: clientRequestId(request.headers['x-request-id']),
    ...{ actor: `user:${user_name}`, route: 'ssh', now },
  };
}
