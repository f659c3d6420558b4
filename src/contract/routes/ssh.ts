/**
 * What an SSH client must know of this deployment. SSH itself is an upgrade: contract/upgrades.ts.
 */
import { z } from '@hono/zod-openapi';
import { defineRoute } from '../auth.ts';
import { failures, json, may } from '../route-parts.ts';

const sshSchema = z
  .object({
    /** As in known_hosts, without names. */
    host_key: z.string(),
  })
  .openapi('Ssh');
export type SshFacts = z.infer<typeof sshSchema>;

export const sshRoutes = {
  showSsh: defineRoute(may('viewer', 'workloads'), {
    method: 'get',
    path: '/v1/ssh',
    responses: { 200: json('The key of its SSH server', sshSchema), ...failures },
  }),
} as const;
