/**
 * Codes of GPUs that a workload asks for: a part of the one table in ../reasons.ts. What a GPU's
 * own state means is in machines.ts.
 */
import type { Reason } from '../reasons.ts';

export const deviceReasons = {
  gpus_unusable: {
    status: 409,
    sentence: '{machine} has GPUs that no workload can be given now: {why}.',
    fix: 'bin/einsora machine show {machine}',
  },
  too_few_gpus: {
    status: 409,
    sentence: '{machine} has {count} usable GPUs ({has}), fewer than the {asked} asked for.',
    fix: 'ask for fewer: --gpus',
  },
  gpus_too_small: {
    status: 409,
    sentence: '{machine} has GPUs that are too small ({has}): {asked} asked for.',
    fix: 'ask for a smaller class: bin/einsora catalog',
  },
  gpus_of_other_model: {
    status: 409,
    sentence: '{machine} has other GPUs ({has}): {asked} asked for.',
    fix: 'any will do: --class nvidia-any',
  },
  gpus_only_together: {
    status: 409,
    sentence: '{machine} hands out all of its {count} GPUs or none (WSL2): {asked} asked for.',
    fix: 'ask for all of them: --gpus {count}',
  },
  run_lost_its_gpu: {
    status: 409,
    sentence: 'Its GPU is lost: {why}.',
    fix: 'bin/einsora machines',
  },
  gpus_busy: {
    status: 409,
    sentence:
      '{machine} has {free} of {suited} such GPUs free; asked for: {asked}; the rest is held by {holders}.',
    fix: 'bin/einsora ls',
  },
} as const satisfies Record<string, Reason>;
