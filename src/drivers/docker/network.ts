/**
 * The network of fenced runs: one bridge of this install, on which no container reaches another.
 *
 * Invariants: nothing starts on it before its fence stands; without a fence nothing starts on it at
 * all. Its bridge has a name of ours, so that rules for it outlive a restart of the engine.
 */
import { describeError } from '../../lib/log.ts';
import { digest } from '../../lib/secret.ts';
import { label_prefix, stringsOf } from './container.ts';
import type { Engine } from './engine.ts';
import { driverError, isStatus } from './engine-error.ts';

export type GuardedNetwork = {
  name: string;
  /** Its interface on the machine. */
  bridge: string;
  /** The addresses of its containers. */
  subnets: string[];
};

/** Keeps containers of a network out of the machine and its local networks. */
export type Fence = {
  /** Resolves once its rules stand and were seen to; rejects where they do not. Idempotent. */
  guard(network: GuardedNetwork): Promise<void>;
};

/** An interface's name has at most 15 characters. */
export function bridgeName(install_id: string): string {
  return `ein${digest(install_id).slice(0, 12)}`;
}

export function networkName(install_id: string): string {
  return `einsora-${install_id}`;
}

/** The network of this install, made where it is missing, with its fence. Its name. */
export async function ensureFencedNetwork(
  engine: Engine,
  install_id: string,
  fence: Fence | null,
): Promise<string> {
  if (fence === null) {
    throw driverError('fence_missing', { why: 'nothing here can set the rules for it' });
  }
  const network = await ensureNetwork(engine, install_id);
  try {
    await fence.guard(network);
  } catch (error) {
    throw driverError('fence_missing', { why: describeError(error) }, error);
  }
  return network.name;
}

async function ensureNetwork(engine: Engine, install_id: string): Promise<GuardedNetwork> {
  const found = await findNetwork(engine, install_id);
  if (found !== null) return found;
  try {
    await engine.json({
      method: 'POST',
      path: '/networks/create',
      json: {
        Name: networkName(install_id),
        CheckDuplicate: true,
        Driver: 'bridge',
        EnableIPv6: false,
        Options: {
          'com.docker.network.bridge.name': bridgeName(install_id),
          'com.docker.network.bridge.enable_icc': 'false',
        },
        Labels: { [`${label_prefix}install`]: install_id },
      },
    });
  } catch (error) {
    // Somebody else made it meanwhile, or the answer was lost.
    if (!isStatus(error, 403, 409)) throw error;
  }
  const made = await findNetwork(engine, install_id);
  if (made === null) throw driverError('fence_missing', { why: 'its network could not be made' });
  return made;
}

type Inspected = {
  Name?: string;
  Labels?: unknown;
  Options?: unknown;
  IPAM?: { Config?: { Subnet?: string }[] | null };
};

async function findNetwork(engine: Engine, install_id: string): Promise<GuardedNetwork | null> {
  const name = networkName(install_id);
  let found: Inspected;
  try {
    found = (await engine.json({ method: 'GET', path: `/networks/${name}` })) as Inspected;
  } catch (error) {
    if (isStatus(error, 404)) return null;
    throw error;
  }
  const bridge = stringsOf(found.Options)['com.docker.network.bridge.name'];
  const owner = stringsOf(found.Labels)[`${label_prefix}install`];
  if (owner !== install_id || bridge !== bridgeName(install_id)) {
    throw driverError('fence_missing', { why: `the network ${name} is not ours` });
  }
  const subnets = (found.IPAM?.Config ?? []).flatMap(({ Subnet }) => Subnet ?? []);
  return { name, bridge, subnets };
}
