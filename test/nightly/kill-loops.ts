/**
 * The kill -9 loops of the integration tests, three hundred times each.
 */
process.env.EINSORA_KILL_LOOPS ??= '300';
await import('../integration/kill-writes.test.ts');
await import('../integration/kill-loops.test.ts');
