/** Sizes in the stories. */
export const gib = 2 ** 30;

/** What a machine has; it may offer less. */
export const machine_memory_bytes = 16 * gib;

/** GPUs of each machine that has some. */
export const gpus_of_machine = 2;

/** What is asked for, small to large. */
export const sizes = [
  { cpu_millis: 1000, memory_bytes: 2 * gib },
  { cpu_millis: 2000, memory_bytes: 4 * gib },
  { cpu_millis: 4000, memory_bytes: 8 * gib },
  { cpu_millis: 4000, memory_bytes: 16 * gib },
] as const;
