/**
 * Live events, as a stream of server-sent events.
 */
import { routes } from '../../contract/routes.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';

export function eventRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.followEvents, async (c) => {
    const { facts } = c.env;
    const { 'last-event-id': last_event_id } = c.req.valid('header');
    const body = await deps.live.open(
      c.get('principal'),
      last_event_id ?? null,
      facts.hangUp ?? (() => {}),
    );
    facts.holds?.();
    return c.body(body, 200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'x-accel-buffering': 'no',
    });
  });
}
