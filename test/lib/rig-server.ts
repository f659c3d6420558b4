/**
 * A rig served over real HTTP, with the files by which the command line finds and signs in to it.
 *
 * Invariants: the command line's data folder is the rig's own; what it opened is closed by `close`.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { listen } from '../../src/controlplane/server.ts';
import type { Gateway } from '../../src/gateway/gateway.ts';
import type { Rig } from './rig.ts';

export type RigServer = { url: string; data_dir: string; close(): Promise<void> };

const no_gateway: Gateway = {
  handle: async (_, response) => void response.writeHead(404).end(),
  close: async () => {},
};

/** Serves the rig on a free port. `gateway` answers the paths of the inference gateway. */
export async function serveRig(rig: Rig, gateway: Gateway = no_gateway): Promise<RigServer> {
  const { api, clock, random, log, apiDeps, sites, upgrades } = rig;
  const { data_dir } = apiDeps;
  const listening = await listen(0, { api, gateway, sites, upgrades, clock, random, log });
  const url = `http://127.0.0.1:${listening.port}`;
  const found = { url, pid: process.pid, version: '0.1.0' };
  writeFileSync(join(data_dir, 'control-plane.json'), JSON.stringify(found));
  writeFileSync(join(data_dir, 'owner-token'), `${rig.token}\n`, { mode: 0o600 });
  return { url, data_dir, close: () => listening.close() };
}
