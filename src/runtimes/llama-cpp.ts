/**
 * The llama.cpp runtime: the `llama-server` of the PATH where it can be used, else the same server
 * out of a pinned wheel, run by the machine's Python.
 *
 * Invariants: always a child behind a Unix socket, never in this process (a bad model aborts the
 * process that loads it); no tools, no web page, no network; the engine's files never open a way
 * to the folder where Einsora keeps its own.
 */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { installFailure } from '../core/install-failure.ts';
import type { Clock } from '../lib/clock.ts';
import type { Random } from '../lib/random.ts';
import { buildFor, installedWheel, installWheel, type WheelPin } from '../lib/wheel.ts';
import { findPython, type Python } from '../lib/wheel-python.ts';
import { findProgram } from '../lib/which.ts';
import { engineCommand, readiness } from './llama-cpp/command.ts';
import { xllamacpp } from './llama-cpp/pin.ts';
import { findServer } from './llama-cpp/server-program.ts';
import { isWithin } from './llama-cpp/system-files.ts';
import { wheelEngine } from './llama-cpp/wheel-engine.ts';
import type { Engine, EngineFailure, EngineFinding, EngineFound, Runtime } from './runtime.ts';

export type LlamaCppOptions = {
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

const script = fileURLToPath(new URL('./llama-cpp/serve.py', import.meta.url));

export function createLlamaCpp(options: LlamaCppOptions): Runtime {
  const pin = options.pin ?? xllamacpp;
  const { tools_folder, platform, env, clock } = options;
  /** Asking takes half a second through the shims that some machines have. */
  let remembered: Python | null = null;

  async function pythonHere(): Promise<Python | null> {
    if (remembered !== null && existsSync(remembered.executable)) return remembered;
    remembered = await findPython({ env, clock });
    return remembered;
  }

  async function find(): Promise<EngineFinding> {
    const server = await findServer({ path: env.PATH, clock });
    if (server !== null && 'program' in server && isClosed(server, tools_folder)) {
      return { ok: true, engine: server };
    }
    const python = await pythonHere();
    const folder = installedWheel({ pin, folder: tools_folder, platform });
    if (folder !== null && python !== null) {
      return { ok: true, engine: wheelEngine(python, folder, pin, script) };
    }
    const passed_over = server !== null && 'why' in server ? server.why : null;
    return notFound(python !== null, passed_over);
  }

  function notFound(has_python: boolean, passed_over: string | null): EngineFinding {
    const build = buildFor(pin, platform);
    if (build === null) {
      const why = passed_over ?? `there is no build of ${pin.name} for ${platform}`;
      return { ...engineMissing(why), installable: false, download_bytes: null };
    }
    // uv fetches a Python where there is none.
    const installable = has_python || findProgram('uv', env.PATH) !== null;
    const missing = installable
      ? engineMissing('it is not installed yet')
      : ({ ok: false, code: 'python_missing', details: {} } as const);
    return { ...missing, installable, download_bytes: build.bytes };
  }

  return {
    name: 'llama.cpp',
    readiness,
    find,
    command: engineCommand,
    async install(onProgress, signal): Promise<EngineFound | EngineFailure> {
      const found = await find();
      if (found.ok) return found;
      const wheel = await installWheel({
        ...{ pin, platform, env, clock, signal, onProgress },
        folder: tools_folder,
        random: options.random,
      });
      if (!wheel.ok) return installFailure(wheel, 'engine_missing');
      const python = await pythonHere();
      if (python === null) return { ok: false, code: 'python_missing', details: {} };
      return { ok: true, engine: wheelEngine(python, wheel.path, pin, script) };
    },
  };
}

/** Whether no mount of an engine would show Einsora's own folder to a run. */
function isClosed(engine: Engine, tools_folder: string): boolean {
  return !engine.mounts.some((mount) => isWithin(tools_folder, mount.source));
}

function engineMissing(why: string): EngineFailure {
  return { ok: false, code: 'engine_missing', details: { why } };
}
