/**
 * Programs beside runs, changed files and visits, on every store: one row of the log each, with
 * what it was and nothing of what was said.
 */
import assert from 'node:assert/strict';
import { select } from '../../test/lib/rig.ts';
import type { Story } from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import type { Action } from './activity.ts';

function actionOf({ ids, clock }: Story, id: string): Action {
  return {
    ...{ id, tenant_id: ids.tenant_id, user_id: ids.user_id, actor: 'user:ada', via: 'token' },
    ...{ proof_id: null, request_id: `request-${id}`, route: 'exec', now: clock.now() },
  };
}

onEveryStore('beside runs', (inStory) => {
  inStory('each is one row, with its target and what it was', async (story) => {
    const { store } = story;
    const workload_id = 'a-workload';
    const of = (id: string) => ({ workload_id, action: actionOf(story, id) });
    await store.transact('recordExec', { ...of('1'), program: 'bash' });
    await store.transact('recordFileChange', { ...of('2'), path: '/workspace/a' });
    await store.transact('noteVisit', of('3'));
    const rows = await select<{ target: string; details: string }>(
      store,
      'select target, details from activity order by id',
    );
    const target = `workload:${workload_id}`;
    assert.deepEqual(rows, [
      { target, details: '{"program":"bash"}' },
      { target, details: '{"path":"/workspace/a"}' },
      { target, details: '{}' },
    ]);
  });
});
