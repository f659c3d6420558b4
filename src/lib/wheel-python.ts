/**
 * Finds a Python that can use wheels of the stable ABI: CPython, 3.10 or newer, 64 bits.
 *
 * Invariants: looking changes nothing; the path given back is the interpreter itself, never a
 * shim, a symlink or a virtual environment's, so that a sandbox can be told exactly which files it
 * needs.
 */
import type { Clock } from './clock.ts';
import { exec } from './exec.ts';
import { findProgram } from './which.ts';

export type Python = {
  /** As found: with the packages (pip) that its environment has. */
  command: string;
  /** The interpreter behind it. */
  executable: string;
  /** The installation that the interpreter belongs to: its standard library is below. */
  prefix: string;
  /** Like "3.11.7". */
  version: string;
};

export type PythonLook = {
  env: Record<string, string>;
  clock: Clock;
  signal?: AbortSignal;
  /** Nothing else will do. */
  only?: Python | undefined;
};

/** The version that uv is asked for where the machine has none. */
const wanted_version = '3.12';
const names = ['python3.13', 'python3.12', 'python3.11', 'python3.10', 'python3'];
const look_timeout_ms = 20_000;
const fetch_timeout_ms = 15 * 60_000;

const probe = `
import json, os, platform, sys, sysconfig
json.dump({
  'version': list(sys.version_info[:3]),
  'executable': os.path.realpath(getattr(sys, '_base_executable', None) or sys.executable),
  'prefix': os.path.realpath(sys.base_prefix),
  'usable': platform.python_implementation() == 'CPython' and sys.maxsize > 2**32
    and not sysconfig.get_config_var('Py_GIL_DISABLED'),
}, sys.stdout)
`;

/** The usable Pythons, best first: those of the PATH, then one that uv knows of. Looks lazily. */
export async function* findPythons(look: PythonLook): AsyncGenerator<Python> {
  if (look.only !== undefined) {
    yield look.only;
    return;
  }
  const seen = new Set<string>();
  for (const name of names) {
    const command = findProgram(name, look.env.PATH);
    const python = command === null ? null : await inspect(command, look);
    if (python === null || seen.has(python.executable)) continue;
    seen.add(python.executable);
    yield python;
  }
  const managed = seen.size > 0 ? null : await findManaged(look);
  if (managed !== null) yield managed;
}

export async function findPython(look: PythonLook): Promise<Python | null> {
  for await (const python of findPythons(look)) return python;
  return null;
}

/** Lets uv fetch a Python of its own; null where there is no uv or it could not. */
export async function fetchPython(look: PythonLook): Promise<Python | null> {
  const uv = findProgram('uv', look.env.PATH);
  if (uv === null) return null;
  await exec(uv, ['python', 'install', wanted_version, '--no-progress'], {
    ...look,
    timeout_ms: fetch_timeout_ms,
  });
  return findManaged(look);
}

async function findManaged(look: PythonLook): Promise<Python | null> {
  const uv = findProgram('uv', look.env.PATH);
  if (uv === null) return null;
  const result = await exec(uv, ['python', 'find', '--no-project', '>=3.10'], {
    ...look,
    timeout_ms: look_timeout_ms,
  });
  const path = result.stdout.trim();
  return result.code === 0 && path.startsWith('/') ? inspect(path, look) : null;
}

async function inspect(command: string, look: PythonLook): Promise<Python | null> {
  const result = await exec(command, ['-I', '-c', probe], { ...look, timeout_ms: look_timeout_ms });
  if (result.code !== 0) return null;
  try {
    const said = JSON.parse(result.stdout) as {
      version: [number, number, number];
      executable: string;
      prefix: string;
      usable: boolean;
    };
    const [major, minor] = said.version;
    if (!said.usable || major !== 3 || minor < 10) return null;
    return {
      command,
      executable: said.executable,
      prefix: said.prefix,
      version: said.version.join('.'),
    };
  } catch {
    return null;
  }
}
