/**
 * How an agent of the story reaches the control plane: messages over a link, with the patience of a
 * client and the honesty of a network.
 *
 * Invariants: a request may come late, twice or not at all, and so may its answer; the first answer
 * counts; a control plane that is not there refuses, one that dies breaks the connection; whoever
 * waits longer than the hold gives up.
 */
import type { Transport } from '../../src/agent/agent.ts';
import type { GuardReport } from '../../src/contract/guard.ts';
import type { ControlPlane } from './control-plane.ts';
import type { Host } from './host.ts';
import type { Life } from './life.ts';
import type { Link } from './link.ts';
import type { Order } from './order.ts';

/** Longer than the hold. */
const patience_ms = 10_000;

export type Line = {
  machine_id: string;
  hold_ms: number;
  host: Host;
  life: Life;
  link: Link;
  /** Who answers now; null while nobody does. */
  controlPlane(): ControlPlane | null;
  guarded?(): GuardReport | null;
  order: Order;
};

export function createTransport(line: Line): Transport {
  const { life, machine_id } = line;
  const quiet = new AbortController().signal;
  return {
    hello: (words) =>
      life.async('transport.hello', () =>
        ask(line, quiet, (there) => there.sync.hello(machine_id, words)),
      ),
    sync: (report, signal) =>
      life.async('transport.sync', async () => {
        const guard = line.guarded?.() ?? null;
        const told = guard === null ? report : { ...report, guard };
        const { reply, arrived } = await ask(line, signal, async (there, ended) => {
          const arrived = line.order.arrives(there, machine_id, report);
          const reply = await there.sync.sync(machine_id, told, ended);
          arrived.answered(reply);
          return { reply, arrived };
        });
        arrived.obeyed(reply);
        return reply;
      }),
  };
}

function ask<Reply>(
  line: Line,
  signal: AbortSignal,
  question: (there: ControlPlane, ended: AbortSignal) => Promise<Reply>,
): Promise<Reply> {
  const { host, link, life, hold_ms } = line;
  return new Promise((resolve, reject) => {
    const ended = new AbortController();
    const onAbort = () => link.send('up', () => ended.abort('called off'));
    const cancel = host.after(hold_ms + patience_ms, () =>
      settle(() => reject(new Error('no answer came'))),
    );
    const settle = (how: () => void) => {
      cancel();
      signal.removeEventListener('abort', onAbort);
      if (life.isAlive()) how();
    };
    // What comes to a computer that sleeps is there when it wakes.
    const bring = (how: () => void) =>
      link.send('down', () => {
        if (host.isSuspended()) host.after(0, () => settle(how));
        else settle(how);
      });
    const refuse = () => bring(() => reject(new Error('the connection was refused')));
    signal.addEventListener('abort', onAbort, { once: true });
    link.send('up', () => {
      const there = line.controlPlane();
      if (there === null) return refuse();
      there.connections.add(refuse);
      const bringAnswer = (how: () => void) => {
        there.connections.delete(refuse);
        bring(how);
      };
      question(there, ended.signal).then(
        (reply) => bringAnswer(() => resolve(reply)),
        (error) => bringAnswer(() => reject(new Error(`refused: ${error.message}`))),
      );
    });
  });
}
