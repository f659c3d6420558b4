/**
 * The fuzz of raw HTTP against the real listener with the real gateway behind it; short for every
 * push, long by night.
 *
 * Invariants: no answer is a failure of ours, nothing is logged as an error, no promise is left
 * rejected, and the listener answers afterwards as it did before.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { listen } from '../../src/controlplane/server.ts';
import { createGateway } from '../../src/gateway/gateway.ts';
import { rawRequest, sendRaw } from './raw-http.ts';
import { createRig, keepingLog, type LogLine } from './rig.ts';
import { targetsOf } from './rig-targets.ts';

export type RawServer = {
  port: number;
  lines: LogLine[];
  rejections: unknown[];
  close(): Promise<void>;
};

export async function startRawServer(): Promise<RawServer> {
  const lines: LogLine[] = [];
  const rejections: unknown[] = [];
  const onRejection = (error: unknown) => void rejections.push(error);
  process.on('unhandledRejection', onRejection);
  const rig = await createRig();
  const log = keepingLog(lines);
  const { clock, random, api } = rig;
  const gateway = createGateway({
    ...targetsOf(rig),
    dial: () => Promise.reject(new Error('nothing runs here')),
    ...{ clock, log },
  });
  const { sites, upgrades } = rig;
  const listening = await listen(0, { api, gateway, sites, upgrades, clock, random, log });
  return {
    ...{ port: listening.port, lines, rejections },
    async close() {
      process.off('unhandledRejection', onRejection);
      await listening.close();
      await rig.close();
    },
  };
}

/** Gives how many answers came. */
export async function fuzzRawHttp(form: { seed: number; runs: number }): Promise<number> {
  const server = await startRawServer();
  const { port, lines, rejections } = server;
  let answers = 0;
  try {
    await fc.assert(
      fc.asyncProperty(rawRequest, async (request) => {
        lines.length = 0;
        const got = await sendRaw(port, request);
        const statuses = [...got.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map(([, code]) => Number(code));
        answers += statuses.length;
        const failed = JSON.stringify(lines.filter(({ level }) => level === 'error'));
        assert.ok(
          statuses.every((status) => status < 500),
          `${got.slice(0, 500)} ${failed}`,
        );
        assert.equal(failed, '[]');
        assert.deepEqual(rejections, []);
      }),
      { seed: form.seed, numRuns: form.runs },
    );
    assert.equal((await fetch(`http://localhost:${port}/healthz`)).status, 200);
  } finally {
    await server.close();
  }
  return answers;
}
