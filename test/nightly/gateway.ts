/**
 * The gateway's chaos in full: four engines for a minute, two real ones killed each quarter of a
 * minute, and clients that leave, often enough for a p99.
 */
process.env.EINSORA_CHAOS_S ??= '60';
process.env.EINSORA_REAL_KILLS ??= '4';
process.env.EINSORA_REAL_KILL_MS ??= '15000';
process.env.EINSORA_GONE_TRIES ??= '300';
await import('../integration/gateway-chaos.test.ts');
await import('../integration/gateway-chaos-real.test.ts');
await import('../integration/client-gone.test.ts');
