/**
 * The engines that are known, by the names that endpoints have for them. A registry.
 */
import type { EngineAdapter } from './adapter.ts';
import { llamaServer } from './llama-server.ts';
import { mlx } from './mlx.ts';
import { vllm } from './vllm.ts';

const engines = new Map([llamaServer, vllm, mlx].map((engine) => [engine.name, engine]));

/** Every other speaks like llama-server, which takes the least for granted. */
export function engineNamed(name: string): EngineAdapter {
  return engines.get(name) ?? llamaServer;
}
