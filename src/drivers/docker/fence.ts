/**
 * The fence around fenced containers: rules of our own in the kernel, seen to before each start and
 * on a timer (ADR-0050).
 *
 * Invariants: `guard` resolves only while the rules that stand are ours, unchanged since they were
 * set; whatever somebody else did to them is mended and told; the rules outlive this program and
 * the engine, and go only when no network of ours is left. One at a time.
 */
import { existsSync } from 'node:fs';
import { isIPv4 } from 'node:net';
import { readIfThere } from '../../lib/files.ts';
import { describeError, type Log } from '../../lib/log.ts';
import { digest } from '../../lib/secret.ts';
import type { Finding } from '../driver.ts';
import { nearNetworks, resolversOf } from './fence-facts.ts';
import { provePacket } from './fence-proof.ts';
import { counters, type Door, fenceRules, noFence, proof_port } from './fence-rules.ts';
import type { Fence, GuardedNetwork } from './network.ts';
import { createNft, type Nft, NftError } from './nft.ts';

export type FenceOptions = {
  install_id: string;
  /** The owner lets guests into the local networks. */
  allow_lan: boolean;
  /** Opens the one door of the machine for a network; null where there is none. */
  openDoor?: (network: GuardedNetwork) => Promise<Door | null>;
  log: Log;
  nft?: Nft;
};

/** Whether packets between the ports of a bridge pass the firewall at all. */
const bridged = '/proc/sys/net/bridge/bridge-nf-call-iptables';

/** What stands, by what we last set and how the kernel showed it then. */
type Standing = { text: string; listing: string; is_proven: boolean };

export function fenceTable(install_id: string): string {
  return `einsora_${digest(install_id).slice(0, 12)}`;
}

export function createFence(options: FenceOptions): Fence {
  const { log, nft = createNft() } = options;
  const table = fenceTable(options.install_id);
  let standing: Standing | null = null;
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const next = last.then(work, work);
    last = next.catch(() => {});
    return next;
  };

  async function stand(network: GuardedNetwork): Promise<Door | null> {
    checkPlace(network.bridge);
    const door = (await options.openDoor?.(network)) ?? null;
    const text = fenceRules({
      ...{ table, networks: [{ bridge: network.bridge, door }] },
      ...{ resolvers: resolversOf(), near: nearNetworks(), allow_lan: options.allow_lan },
    });
    const shown = await nft.listing(table);
    if (shown !== null && shown === standing?.listing && text === standing.text) return door;
    const is_changed = standing !== null && shown !== standing.listing;
    standing = null;
    await nft.apply(text);
    const listing = await nft.listing(table);
    if (listing === null) throw new NftError('its rules were gone again at once', null);
    standing = { text, listing, is_proven: false };
    if (is_changed) {
      const fields = { table, was_there: shown !== null };
      log.warn(fields, 'the fence around containers was changed by somebody else; it stands again');
    }
    return door;
  }

  return {
    guard: (network) => inTurn(() => stand(network)),
    prove: (network, pid) =>
      inTurn(async () => {
        const [address] = network.gateways;
        if (standing === null || standing.is_proven || address === undefined) return;
        const before = await nft.packets(table, counters.proof);
        if (!(await provePacket(pid, address, proof_port))) return;
        if ((await nft.packets(table, counters.proof)) === before) {
          throw new NftError("a container's packet came past its rules unseen", null);
        }
        standing.is_proven = true;
      }),
    release: () =>
      inTurn(async () => {
        standing = null;
        if ((await nft.listing(table)) !== null) await nft.apply(noFence(table));
      }),
    look: () => look(nft, table, options.allow_lan),
  };
}

/** Rules of this machine's kernel mean nothing where its packets do not pass. */
function checkPlace(bridge: string): void {
  if (!existsSync(`/sys/class/net/${bridge}`)) {
    const why = 'the networks of its containers are not of this machine';
    throw new NftError(`${why} (a rootless engine, or one in a virtual machine)`, null);
  }
  if (readIfThere(bridged)?.trim() !== '1') {
    const why = 'packets between containers do not pass the firewall';
    throw new NftError(why, 'sysctl -w net.bridge.bridge-nf-call-iptables=1');
  }
}

/** For `doctor`: can rules be set here? Changes nothing. */
async function look(nft: Nft, table: string, allow_lan: boolean): Promise<Finding> {
  const check = 'docker fence';
  try {
    await nft.listing(table);
  } catch (error) {
    const fix = error instanceof NftError ? error.fix : null;
    const message = `no container with a network starts: ${describeError(error)}`;
    return { check, status: 'warning', message, fix };
  }
  const places = allow_lan
    ? 'this machine (your local network is open)'
    : 'this machine and its network';
  return { check, status: 'ok', message: `nftables keeps containers out of ${places}`, fix: null };
}

/** The door as a URL's host and port. */
export function doorHost({ address, port }: Door): string {
  return isIPv4(address) ? `${address}:${port}` : `[${address}]:${port}`;
}
