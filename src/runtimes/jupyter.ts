/**
 * JupyterLab on the machine itself: a pinned environment, installed once for each version of
 * Python, and shown to every notebook read-only.
 *
 * Invariants: every file of it came with its pinned hash; a second install finds it and needs no
 * network; what people install themselves goes into their workspace, never into it.
 */
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installFailure } from '../core/install-failure.ts';
import type { Details, ReasonCode } from '../core/reasons.ts';
import type { Clock } from '../lib/clock.ts';
import type { Random } from '../lib/random.ts';
import { installWheel, type WheelPin } from '../lib/wheel.ts';
import { fetchPython, findPython, type Python } from '../lib/wheel-python.ts';
import { jupyterPin } from './jupyter/pin.ts';
import { pythonFiles } from './llama-cpp/system-files.ts';
import type { EngineMount } from './runtime.ts';

export type JupyterEnvironment = {
  /** For people: which versions. */
  label: string;
  /** The start of the argv. */
  program: string[];
  /** Where its programs are, for the PATH. */
  path: string;
  env: Record<string, string>;
  mounts: EngineMount[];
};

export type JupyterFound =
  | { ok: true; environment: JupyterEnvironment }
  | { ok: false; code: ReasonCode; details: Details };

export type Jupyter = {
  /** Idempotent, works offline once done, ends at the signal, and fails as a value. */
  install(
    onProgress: (done_bytes: number, total_bytes: number) => void,
    signal: AbortSignal,
  ): Promise<JupyterFound>;
};

export type JupyterOptions = {
  /** Where environments are kept. */
  tools_folder: string;
  /** `<platform>-<arch>`, for instance `linux-x64`. */
  platform: string;
  /** The environment that programs are looked up in, and that package clients may draw from. */
  env: Record<string, string>;
  clock: Clock;
  random: Random;
  /** Another set than the pinned one. */
  pinFor?: (python: Python) => WheelPin;
};

const target = '/opt/einsora/jupyter';
const programs = '/opt/einsora/bin';
const python_script = fileURLToPath(new URL('./jupyter/python.sh', import.meta.url));

export function createJupyter(options: JupyterOptions): Jupyter {
  const { tools_folder, platform, env, clock, random } = options;
  const pinFor = options.pinFor ?? jupyterPin;
  /** Looking through its thousands of files once is enough. */
  let remembered: { python: Python; folder: string; label: string } | null = null;
  return {
    async install(onProgress, signal) {
      const known = remembered;
      if (known !== null && existsSync(known.folder) && existsSync(known.python.executable)) {
        return { ok: true, environment: environmentOf(known) };
      }
      const look = { env, clock, signal };
      const python = (await findPython(look)) ?? (await fetchPython(look));
      if (python === null) {
        const why = 'neither uv nor a Python of 3.10 or later with venv is there';
        return { ok: false, code: 'environment_missing', details: { why } };
      }
      const pin = pinFor(python);
      const installed = await installWheel({
        ...{ pin, platform, env, clock, random, signal, onProgress, python },
        folder: tools_folder,
      });
      if (!installed.ok) {
        if (installed.code !== 'python_missing') {
          return installFailure(installed, 'environment_missing');
        }
        const why = 'neither uv nor pip is there, nor venv to bring it';
        return { ok: false, code: 'environment_missing', details: { why } };
      }
      const label = `JupyterLab ${pin.version.split('-')[0]}, Python ${python.version}`;
      remembered = { python, folder: installed.path, label };
      return { ok: true, environment: environmentOf(remembered) };
    },
  };
}

function environmentOf(found: {
  python: Python;
  folder: string;
  label: string;
}): JupyterEnvironment {
  const { python, folder, label } = found;
  return {
    label,
    program: [python.executable, '-m', 'jupyterlab'],
    path: `${programs}:${target}/bin:${dirname(python.executable)}`,
    env: {
      PYTHONPATH: target,
      JUPYTERLAB_DIR: `${target}/share/jupyter/lab`,
      JUPYTER_PATH: `${target}/share/jupyter`,
      JUPYTER_CONFIG_PATH: `${target}/etc/jupyter`,
      EINSORA_PYTHON: python.executable,
    },
    mounts: [
      ...pythonFiles(python),
      { source: folder, target, writable: false },
      ...['python', 'python3'].map((name) => ({
        ...{ source: python_script, target: `${programs}/${name}`, writable: false },
      })),
    ],
  };
}
