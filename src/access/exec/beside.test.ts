import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRig, type Rig } from '../../../test/lib/rig.ts';
import { createSiteRig } from '../../../test/lib/site-rig.ts';
import type { EinsoraStore } from '../../store/transactions.ts';
import { findBeside } from './beside.ts';

const write = (rig: Rig, text: string, params: (string | number)[]) =>
  rig.store.transact('write', { text, params });

test('what was stopped for being idle is woken first, and nothing else is', async () => {
  const site = await createSiteRig();
  try {
    const { rig } = site;
    const store = rig.store as unknown as EinsoraStore;
    const lab = await site.addNotebook();
    const { tenant_id } = rig.ids;
    const woken: string[] = [];
    const find = (wakes: boolean) =>
      findBeside(store, tenant_id, lab.id, async (id) => {
        woken.push(id);
        if (wakes) await site.move(lab, 'running');
      });
    await find(true);
    assert.deepEqual(woken, [], 'it runs');
    const park = async (cause: string) => {
      await site.move(lab, 'stopped');
      await write(rig, 'update workloads set park_cause = $2 where id = $1', [lab.id, cause]);
    };
    await park('user');
    await assert.rejects(find(true), { code: 'not_ready' });
    assert.deepEqual(woken, [], 'a person stopped it');
    await park('idle');
    await assert.rejects(find(false), { code: 'not_ready' });
    const { run } = await find(true);
    assert.deepEqual([run.workload_id, woken], [lab.id, [lab.id, lab.id]]);
    await assert.rejects(findBeside(store, 'another', lab.id), { code: 'not_found' });
  } finally {
    await site.close();
  }
});

test('what is not there is not found', async () => {
  const rig = await createRig();
  const store = rig.store as unknown as EinsoraStore;
  await assert.rejects(findBeside(store, rig.ids.tenant_id, 'none'), { code: 'not_found' });
  await rig.close();
});
