/**
 * The contract of engines on real ones: llama-server out of the tests' cache; mlx_lm.server and
 * vLLM where EINSORA_TEST_MLX and EINSORA_TEST_VLLM name a Python that has them.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { engineContract } from '../../../test/contracts/engine.ts';
import { writeKnownAnswerModel } from '../../../test/lib/known-answer.ts';
import { needs } from '../../../test/lib/parts.ts';
import { startMlx, startVllm } from '../../../test/lib/python-engines.ts';
import { startRealEngine } from '../../../test/lib/real-engine.ts';

const timeout = 900_000;
const folder = mkdtempSync(join(tmpdir(), 'einsora-engines-'));
after(() => rmSync(folder, { recursive: true }));

engineContract(
  {
    ...{ engine: 'llama-server', own_model: 'smol', has_limit: true, has_responses: true },
    apart: 'nothing',
    async start() {
      const model_path = join(folder, 'known.gguf');
      writeKnownAnswerModel(model_path);
      return startRealEngine({ model_path, context_length: 512 });
    },
  },
  { ...needs('llama'), timeout },
);

engineContract(
  {
    ...{ engine: 'mlx', own_model: 'default_model', has_limit: false, has_responses: false },
    apart: null,
    start: () => startMlx(join(folder, 'mlx')),
  },
  { ...needs('mlx'), timeout },
);

engineContract(
  {
    ...{ engine: 'vllm', own_model: 'smol', has_limit: true, has_responses: true },
    apart: 'own',
    start: () => startVllm(join(folder, 'vllm')),
  },
  { ...needs('vllm'), timeout },
);
