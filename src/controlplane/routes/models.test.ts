/**
 * Models over HTTP: what a plan says of a hub's model, what is recorded of it, what a pull wishes,
 * and that a hub's token goes to the machine that fetches and nowhere else.
 */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { settle } from '../../../test/lib/fake-clock.ts';
import { type FakeHub, startFakeHub } from '../../../test/lib/fake-hub.ts';
import {
  addTenant,
  addUser,
  ask,
  createRig,
  everyValue,
  gib,
  inventoryOf,
  type Rig,
} from '../../../test/lib/rig.ts';
import type { DesiredModels, ObservedModelFile } from '../../contract/model-files.ts';

let hub: FakeHub;
const content = Buffer.from('GGUF and a little more of it');
const name = 'hf://o/r';
const pinned = () => `hf://o/r@${hub.commit}/m-Q4_0.gguf`;

before(async () => {
  hub = await startFakeHub();
  hub.put('o/r', 'm-Q4_0.gguf', content);
  hub.put('o/gated', 'g.gguf', content);
  hub.close_repo('o/gated', 'gated');
});
after(() => hub.close());
beforeEach(() => {
  hub.faults = {};
  hub.requests.length = 0;
});

type Machine = {
  /** One exchange of the machine's agent: what it is to do about models. */
  sync(files?: ObservedModelFile[], free_bytes?: number): Promise<DesiredModels | undefined>;
};

function given(what: string, body: (rig: Rig, machine: Machine) => Promise<void>): void {
  test(what, async () => {
    const places = { hub_url: hub.url, trusted_origins: [hub.url, hub.files_origin] };
    const rig = await createRig({ places });
    try {
      const inventory = inventoryOf({ cpu_millis: 4000, memory_bytes: 8 * gib });
      const { machine_id } = rig.ids;
      const hello = { boot_id: 'b', hello_id: 'h', known: null, inventory };
      const greeted = await rig.sync.hello(machine_id, hello);
      assert.ok(greeted.outcome === 'greeted');
      const { outcome: _, ...identity } = greeted;
      let seq = 0;
      const sync = async (files: ObservedModelFile[] = [], free_bytes = 10 * gib) => {
        seq += 1;
        const words = { boot_id: 'b', have_generation: -1, observed: [], inventory: null };
        const report = { ...identity, ...words, seq, models: { files, free_bytes } };
        const reply = await rig.sync.sync(machine_id, report, new AbortController().signal);
        assert.ok(reply.outcome === 'accepted');
        return reply.models;
      };
      await body(rig, { sync });
    } finally {
      await rig.close();
    }
  });
}

const launch = { kind: 'endpoint', model: name };
const pull = (rig: Rig, model = name, token?: string) =>
  ask(rig, 'POST', '/v1/model-files', {
    body: { model },
    ...(token === undefined ? {} : { token }),
  });

const ready = (file: { id: string; source: string }, done_wish: number): ObservedModelFile => ({
  ...{ id: file.id, tenant_id: null, source: file.source, state: 'ready', format: 'gguf' },
  ...{ revision: hub.commit, sha256: 'aa', bytes: content.length, done_bytes: null },
  ...{ total_bytes: null, code: null, details: {}, checked: null, done_wish },
});

given(
  'a plan says how much comes and what room there is, and pins the revision',
  async (rig, machine) => {
    await machine.sync([], 5 * gib);
    const { status, body } = await ask(rig, 'POST', '/v1/plan', { body: launch });
    assert.equal(status, 200);
    assert.deepEqual(body.download, {
      ...{ source: pinned(), revision: hub.commit, bytes: content.length, file_count: 1 },
      ...{ free_bytes: 5 * gib, is_here: false },
    });
    const asked = hub.requests.length;
    const launched = await ask(rig, 'POST', '/v1/workloads', { body: launch });
    assert.equal(launched.status, 201, launched.text);
    assert.deepEqual([launched.body.model, launched.body.name], [pinned(), 'm-q4-0']);
    assert.equal(hub.requests.length, asked, 'the launch means what the plan meant');
  },
);

given('a refusal of a hub comes at once, and nothing is recorded', async (rig) => {
  const gated = { kind: 'endpoint', model: 'hf://o/gated' };
  for (const path of ['/v1/plan', '/v1/workloads']) {
    const refused = await ask(rig, 'POST', path, { body: gated });
    assert.deepEqual([refused.status, refused.body.error?.code], [409, 'hub_gated']);
    assert.match(refused.body.error?.fix ?? '', /secrets set hf-token$/);
  }
  assert.equal((await pull(rig, 'hf://o/gated')).body.error?.code, 'hub_gated');
  assert.deepEqual((await ask(rig, 'GET', '/v1/workloads')).body.items, []);
  assert.deepEqual((await ask(rig, 'GET', '/v1/model-files')).body.items, []);
});

given(
  'a pull is wished until it is done, then it is here and a plan says so',
  async (rig, machine) => {
    const pulled = await pull(rig);
    assert.equal(pulled.status, 202, pulled.text);
    assert.deepEqual([pulled.body.state, pulled.body.source], ['queued', pinned()]);
    assert.equal(rig.woken.agents, 1);
    const [wish] = (await machine.sync())?.files ?? [];
    assert.deepEqual([wish?.id, wish?.wish, wish?.hub_token], [pulled.body.id, 'fetch', null]);
    assert.ok(wish !== undefined);
    const fetching = {
      ...ready(wish, 0),
      state: 'fetching' as const,
      done_bytes: 7,
      total_bytes: 28,
    };
    await machine.sync([fetching]);
    const path = `/v1/model-files/${wish.id}`;
    const on_its_way = (await ask(rig, 'GET', path)).body;
    assert.deepEqual([on_its_way.state, on_its_way.done_bytes], ['fetching', 7]);
    assert.deepEqual((await machine.sync([ready(wish, 1)]))?.files, []);
    assert.equal((await ask(rig, 'GET', path)).body.state, 'ready');
    const plan = await ask(rig, 'POST', '/v1/plan', { body: launch });
    assert.equal((plan.body.download as { is_here: boolean }).is_here, true);
  },
);

given(
  'without its hub a model that is here can be launched; one that is not is refused',
  async (rig, machine) => {
    await pull(rig);
    const [wish] = (await machine.sync())?.files ?? [];
    assert.ok(wish !== undefined);
    await machine.sync([ready(wish, 1)]);
    hub.faults = { status: { code: 502 } };
    const tries = async (model: string) => {
      const body = { kind: 'endpoint', model };
      await rig.clock.advance(61_000); // what was answered before is forgotten
      let is_over = false;
      const asked = ask(rig, 'POST', '/v1/plan', { body }).finally(() => {
        is_over = true;
      });
      while (!is_over) await rig.clock.advance(100); // until the second try, too, is made
      return asked;
    };
    const code = async (model: string) => (await tries(model)).body.error?.code;
    for (const model of [name, `${name}:Q4_0`, `${name}@main`, pinned(), `${name}/m-Q4_0.gguf`]) {
      const plan = await tries(model);
      assert.equal(plan.status, 200, plan.text);
      assert.equal((plan.body.download as { source: string }).source, pinned());
    }
    assert.equal(await code(`${name}:Q8_0`), 'hub_failing');
    assert.equal(await code(`${name}@${'f'.repeat(40)}`), 'hub_failing');
    assert.equal(await code('hf://o/other'), 'hub_failing');
  },
);

given('how far a fetch is is written nowhere', async (rig, machine) => {
  await pull(rig);
  const [wish] = (await machine.sync())?.files ?? [];
  assert.ok(wish !== undefined);
  const at = (done_bytes: number) => ({
    ...{ ...ready(wish, 0), state: 'fetching' as const, done_bytes, total_bytes: 99_999 },
  });
  await machine.sync([at(1)]);
  const before_it = (await everyValue(rig.store)).sort();
  await machine.sync([at(77_777)]);
  const changed = (await everyValue(rig.store)).sort();
  assert.deepEqual(changed, before_it);
});

given('a model that runs is not removed; one that does not is', async (rig, machine) => {
  await pull(rig);
  const [wish] = (await machine.sync())?.files ?? [];
  assert.ok(wish !== undefined);
  await machine.sync([ready(wish, 1)]);
  rig.startController();
  await ask(rig, 'POST', '/v1/workloads', { body: launch });
  await settle();
  const path = `/v1/model-files/${wish.id}`;
  assert.deepEqual((await ask(rig, 'GET', path)).body.in_use_by, ['m-q4-0']);
  const refused = await ask(rig, 'DELETE', path);
  assert.deepEqual([refused.status, refused.body.error?.code], [409, 'model_in_use']);
  assert.equal(refused.body.error?.fix, 'bin/einsora stop m-q4-0');
});

given('a removed model is told to its machine, and gone when it says so', async (rig, machine) => {
  await pull(rig);
  const [wish] = (await machine.sync())?.files ?? [];
  assert.ok(wish !== undefined);
  await machine.sync([ready(wish, 1)]);
  const path = `/v1/model-files/${wish.id}`;
  assert.equal((await ask(rig, 'DELETE', path)).body.state, 'removing');
  const [removal] = (await machine.sync([ready(wish, 1)]))?.files ?? [];
  assert.deepEqual([removal?.wish, removal?.number], ['remove', 2]);
  await machine.sync([{ ...ready(wish, 2), state: 'removed' }]);
  assert.equal((await ask(rig, 'GET', path)).status, 404);
});

given(
  'the token of a tenant goes to the machine with its run, as long as it runs',
  async (rig, machine) => {
    const secret = { body: { value: hub.token } };
    assert.equal((await ask(rig, 'PUT', '/v1/secrets/hf-token', secret)).status, 200);
    rig.startController();
    await ask(rig, 'POST', '/v1/workloads', { body: { kind: 'endpoint', model: 'smollm2-135m' } });
    await settle();
    assert.deepEqual(
      (await machine.sync())?.askers,
      [],
      'for a model of the catalog it is not needed',
    );
    const gated = { kind: 'endpoint', model: 'hf://o/gated' };
    const launched = await ask(rig, 'POST', '/v1/workloads', { body: gated });
    assert.equal(launched.status, 201, launched.text);
    await settle();
    const [asker, ...others] = (await machine.sync())?.askers ?? [];
    assert.deepEqual(others, []);
    assert.equal(asker?.hub_token, hub.token);
    assert.equal(asker?.tenant_id, rig.ids.tenant_id);
    await ask(rig, 'POST', `/v1/workloads/${launched.body.id}/stop`);
    assert.deepEqual((await machine.sync())?.askers, []);
    assert.ok(!(await everyValue(rig.store)).some((value) => value.includes(hub.token)));
    assert.ok(!JSON.stringify(rig.lines).includes(hub.token));
  },
);

given(
  'another tenant sees no model, and no file of a machine that is not theirs',
  async (rig, machine) => {
    const pulled = await pull(rig);
    await machine.sync();
    await addTenant(rig.store, 'other', 'other');
    const eve = { tenant_id: 'other', name: 'eve', role: 'tenant-admin' } as const;
    const { token } = await addUser(rig.store, rig.random, eve);
    assert.deepEqual((await ask(rig, 'GET', '/v1/model-files', { token })).body.items, []);
    const path = `/v1/model-files/${pulled.body.id}`;
    assert.equal((await ask(rig, 'GET', path, { token })).status, 404);
    assert.equal((await ask(rig, 'DELETE', path, { token })).status, 404);
    assert.equal(
      (await pull(rig, name, token)).body.error?.code,
      'not_found',
      'no machine of theirs',
    );
    for (const model of ['/etc/passwd', 'file:///etc/passwd', '/no/such/file']) {
      const refused = await ask(rig, 'POST', '/v1/plan', {
        token,
        body: { kind: 'endpoint', model },
      });
      assert.equal(refused.body.error?.code, 'file_source_refused', model);
    }
  },
);

given('a list goes on page by page; what is no cursor is refused', async (rig) => {
  for (const model of [name, 'smollm2-135m']) assert.equal((await pull(rig, model)).status, 202);
  const first = (await ask(rig, 'GET', '/v1/model-files?limit=1')).body;
  assert.equal(first.items?.length, 1);
  const rest = (await ask(rig, 'GET', `/v1/model-files?cursor=${first.next_cursor}`)).body;
  assert.deepEqual([rest.items?.length, rest.next_cursor], [1, null]);
  for (const cursor of ['x', 'W10', 'WzEsMiwzXQ']) {
    assert.equal((await ask(rig, 'GET', `/v1/model-files?cursor=${cursor}`)).status, 400, cursor);
  }
});

given('names that cannot be pulled are refused with what they are', async (rig) => {
  const code = async (model: string) => (await pull(rig, model)).body.error?.code;
  assert.equal(await code('nope'), 'unknown_model');
  assert.equal(await code('/etc/passwd'), 'bad_request');
  assert.equal(await code('hf://o'), 'bad_request');
  assert.equal(await code('s3://x/y'), 'model_source_unsupported');
  assert.equal(await code('https://10.0.0.1/m.gguf'), 'source_address_refused');
  assert.equal(await code('hf://o/none'), 'hub_repo_not_found');
});
