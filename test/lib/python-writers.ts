/**
 * The packages that write model files: writers that know nothing of our validators.
 */
import { join } from 'node:path';
import { runPython } from './python-packages.ts';

const writers = {
  name: 'writers-1',
  packages: ['gguf==0.19.0', 'safetensors==0.8.0', 'numpy>=2,<3'],
  deps: false,
};
const honest = join(import.meta.dirname, 'honest');

export const chat_templates = join(honest, 'templates');

/** Runs a script of the folder `honest` with the packages; returns what it printed. */
export function runWriter(script: string, args: readonly string[]): Promise<string> {
  return runPython(writers, join(honest, script), args);
}
