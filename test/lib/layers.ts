/**
 * Which part of the program may import which.
 *
 * Invariants: one table; whatever it does not allow is a violation. `type` imports load nothing at
 * run time, `lazy` ones only when asked.
 */
import type { Import } from './source-facts.ts';

type Layer = {
  /** Layers that may be imported in any way. */
  from: readonly string[];
  /** Layers of which types may be imported. */
  types?: readonly string[];
  /** Packages and builtins: null allows all that no exclusive rule takes away. */
  packages: readonly string[] | null;
};

const base = ['core', 'lib', 'contract'];
const below_controlplane = [
  ...base,
  'store',
  'backends',
  'gateway',
  'access',
  'models',
  'runtimes',
];
const packages = null;

export const layers: Record<string, Layer> = {
  // Pure, so no builtin but a checksum.
  core: { from: ['core'], types: ['contract'], packages: ['node:zlib'] },
  lib: { from: ['lib'], packages },
  contract: {
    from: ['contract', 'core'],
    packages: ['zod', '@hono/zod-openapi'],
  },
  store: { from: ['store', ...base], packages },
  models: { from: ['models', ...base], packages },
  runtimes: { from: ['runtimes', ...base], packages },
  drivers: { from: ['drivers', 'models', 'runtimes', ...base], packages },
  agent: { from: ['agent', 'drivers', 'models', 'runtimes', ...base], packages },
  backends: { from: ['backends', 'store', ...base], packages },
  gateway: { from: ['gateway', 'store', ...base], packages },
  access: { from: ['access', 'store', ...base], packages },
  controlplane: { from: ['controlplane', ...below_controlplane], packages },
  cli: { from: ['cli', ...base], packages },
  /** src/main.ts: the first lines that run. */
  main: { from: ['cli', ...base], packages },
  web: { from: ['web'], types: ['contract', 'core'], packages },
};

/** The only file of the control plane that may start the agent in its own process. */
const composition_root = 'src/controlplane/system.ts';
/** Commands that are the program itself: they load the rest, once they know that they run. */
const lazy_commands = new Set([
  'src/cli/up.ts',
  'src/cli/agent.ts',
  'src/cli/doctor.ts',
  'src/cli/guard.ts',
  'src/cli/machine-policy.ts',
  'src/cli/models-validate.ts',
]);

export function layerOf(path: string): string | null {
  if (path === 'src/main.ts') return 'main';
  if (path.startsWith('web/')) return 'web';
  return /^src\/([\w-]+)\//.exec(path)?.[1] ?? null;
}

/**
 * Why this import is not allowed, or null. Tests beside the source are no part of the program, so
 * they may import anything, as those in `test/` may.
 */
export function importProblem(path: string, one: Import): string | null {
  const from = layerOf(path);
  if (from === null || /\.test\.tsx?$/.test(path)) return null;
  const layer = layers[from];
  if (layer === undefined) return `${from} is no layer`;
  const to = layerOf(one.target);
  if (to === null) return outside(layer, one);
  if (layer.from.includes(to)) return null;
  if (one.how === 'type' && layer.types?.includes(to)) return null;
  if (path === composition_root && (to === 'agent' || to === 'drivers')) return null;
  if (lazy_commands.has(path) && one.how !== 'static') return null;
  return `${from} may not import ${to}${one.how === 'static' ? '' : ` (${one.how})`}`;
}

function outside(layer: Layer, one: Import): string | null {
  if (/^(test|bench|scripts)\//.test(one.target)) return 'the program may not import its tests';
  if (layer.packages === null) return null;
  return layer.packages.includes(one.target) ? null : `may not import ${one.target}`;
}
