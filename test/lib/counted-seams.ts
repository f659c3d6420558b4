/**
 * A limiter and turns that admit all, and count what is taken and given back.
 */
import type { GatewayOptions } from '../../src/gateway/gateway.ts';
import type { TokenUse } from '../../src/gateway/request-record.ts';

/** What a request that reached an engine does, in this order. */
export const all_seams = ['enter', 'leave', 'settle', 'end'];

export function countSeams(): Pick<GatewayOptions, 'limiter' | 'turns'> & {
  order: string[];
  used: TokenUse[];
} {
  const order: string[] = [];
  const used: TokenUse[] = [];
  return {
    order,
    used,
    limiter: {
      admit: () => ({
        ok: true,
        headers: { 'x-ratelimit-limit-requests': '7' },
        lease: {
          settle(use) {
            order.push('settle');
            used.push(use);
          },
          end: () => void order.push('end'),
        },
      }),
    },
    turns: {
      enter: async () => {
        order.push('enter');
        return { ok: true, leave: () => void order.push('leave') };
      },
      standing: () => [],
    },
  };
}
