/**
 * The network of fenced runs: one bridge of this install, on which no container reaches another.
 *
 * Invariants: nothing starts on it before its fence stands; without a fence nothing starts on it at
 * all. Its bridge has a name of ours, so that rules for it outlive a restart of the engine.
 */
import { describeError } from '../../lib/log.ts';
import { digest } from '../../lib/secret.ts';
import type { DriverError, Finding } from '../driver.ts';
import { label_prefix, stringsOf } from './container.ts';
import type { Engine } from './engine.ts';
import { driverError, isStatus } from './engine-error.ts';
import type { Door } from './fence-rules.ts';
import { NftError } from './nft.ts';

export type GuardedNetwork = {
  name: string;
  /** Its interface on the machine. */
  bridge: string;
  /** The addresses of its containers. */
  subnets: string[];
  /** The machine's own addresses in it. */
  gateways: string[];
};

/** Keeps containers of a network out of the machine and its local networks. */
export type Fence = {
  /**
   * Resolves once its rules stand and were seen to, with what guests may call on the machine (null:
   * nothing); rejects where they do not. Idempotent.
   */
  guard(network: GuardedNetwork): Promise<Door | null>;
  /** Rejects where a packet out of the network of this process came past the rules. */
  prove(network: GuardedNetwork, pid: number): Promise<void>;
  /** Takes the rules away: no network is left. */
  release(): Promise<void>;
  /** What can be said of it without a network. */
  look(): Promise<Finding>;
};

export type FencedNetwork = GuardedNetwork & { door: Door | null };

/** An interface's name has at most 15 characters. */
export function bridgeName(install_id: string): string {
  return `ein${digest(install_id).slice(0, 12)}`;
}

export function networkName(install_id: string): string {
  return `einsora-${install_id}`;
}

/** The network of this install, made where it is missing, with its fence. */
export async function ensureFencedNetwork(
  engine: Engine,
  install_id: string,
  fence: Fence | null,
): Promise<FencedNetwork> {
  if (fence === null) {
    throw driverError('fence_missing', { why: 'nothing here can set the rules for it' });
  }
  const network = await ensureNetwork(engine, install_id);
  try {
    return { ...network, door: await fence.guard(network) };
  } catch (error) {
    throw fenceMissing(error);
  }
}

export function fenceMissing(error: unknown): DriverError {
  const fix = error instanceof NftError ? error.fix : null;
  const why = `${describeError(error)}${fix === null ? '' : ` (${fix})`}`;
  return driverError('fence_missing', { why }, error);
}

/** Takes the network away where no container is in it. Whether none is there now. */
export async function removeNetwork(engine: Engine, install_id: string): Promise<boolean> {
  if ((await findNetwork(engine, install_id)) === null) return true;
  try {
    await engine.json({ method: 'DELETE', path: `/networks/${networkName(install_id)}` });
    return true;
  } catch (error) {
    if (isStatus(error, 404)) return true;
    if (isStatus(error, 403, 409)) return false;
    throw error;
  }
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
  IPAM?: { Config?: { Subnet?: string; Gateway?: string }[] | null };
};

/** Null where it was not made yet. */
export async function findNetwork(
  engine: Engine,
  install_id: string,
): Promise<GuardedNetwork | null> {
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
  const config = found.IPAM?.Config ?? [];
  const subnets = config.flatMap(({ Subnet }) => Subnet ?? []);
  const gateways = config.flatMap(({ Gateway }) => Gateway ?? []);
  return { name, bridge, subnets, gateways };
}
