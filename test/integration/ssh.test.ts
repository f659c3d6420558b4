/**
 * `einsora ssh` and plain OpenSSH through the control plane: the command line, its ProxyCommand,
 * the upgrade, the server, with a folder of this machine in place of a run.
 */
import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { systemClock } from '../../src/lib/clock.ts';
import { exec } from '../../src/lib/exec.ts';
import { needs } from '../lib/parts.ts';
import { repository } from '../lib/program.ts';
import { addUser, select } from '../lib/rig.ts';
import { createSiteRig, type Notebook, type SiteRig } from '../lib/site-rig.ts';
import { insideOf, makeKey } from '../lib/ssh-rig.ts';

const part = needs('ssh', 'bash');
const launcher = join(repository, 'bin/einsora');
let site: SiteRig;
let box: Notebook;
const asleep: Notebook[] = [];
/** A home and a data folder whose names are as bad as names get. */
let folder = '';
let home = '';
let data_dir = '';
let root = '';

before(async () => {
  if (part.skip !== false) return;
  folder = mkdtempSync(join(tmpdir(), 'einsora-ssh-'));
  home = join(folder, `ho me%h "q" it's`);
  data_dir = join(folder, `da ta %n $(x) "q" it's`);
  root = join(folder, 'run');
  for (const path of [home, data_dir, join(root, 'workspace')])
    mkdirSync(path, { recursive: true });
  const { exec: start, files, connect } = insideOf(root);
  const logs = async () => ({ text: '', next_offset: 0, end: false });
  site = await createSiteRig({
    clock: systemClock,
    // As the controller would, a moment later.
    wake: async (id) => {
      const one = asleep.find((notebook) => notebook.id === id);
      if (one === undefined) return;
      await site.move(one, 'provisioning');
      systemClock.after(300, () => void site.move(one, 'running', 2));
    },
    backend: {
      ...{ logs, dial: () => Promise.reject(new Error('nothing is dialled')) },
      exec: (_machine, _run, ask, signal) => start(ask, signal),
      files: () => files(),
      connect: (_machine, _run, port) => connect(port),
    },
  });
  box = await site.addNotebook();
  const found = { url: site.origin, pid: process.pid, version: '0.1.0' };
  writeFileSync(join(data_dir, 'control-plane.json'), JSON.stringify(found));
  writeFileSync(join(data_dir, 'owner-token'), `${site.rig.token}\n`, { mode: 0o600 });
});
after(async () => {
  await site?.close();
  if (folder !== '') rmSync(folder, { recursive: true });
});

const env = () => ({ PATH: process.env.PATH ?? '', HOME: home, LANG: 'C.UTF-8', SHELL: '/bin/sh' });
type How = { token?: string; input?: string; timeout_ms?: number };

/** Runs the command line; by another token than the owner's through a data folder of its own. */
async function einsora(args: string[], how: How = {}) {
  let dir = data_dir;
  if (how.token !== undefined) {
    dir = mkdtempSync(join(folder, 'other-'));
    const found = readFileSync(join(data_dir, 'control-plane.json'));
    writeFileSync(join(dir, 'control-plane.json'), found);
    writeFileSync(join(dir, 'owner-token'), `${how.token}\n`, { mode: 0o600 });
  }
  return exec(launcher, ['--data-dir', dir, ...args], {
    ...{ env: env(), timeout_ms: how.timeout_ms ?? 30_000 },
    ...(how.input === undefined ? {} : { input: how.input }),
  });
}

function plain(program: string, args: string[]) {
  // OpenSSH looks for its file where the password database says, not where HOME does.
  const all = ['-F', join(home, '.ssh/config'), '-o', 'BatchMode=yes', ...args];
  return exec(program, all, { env: env(), timeout_ms: 30_000 });
}

async function member(name: string, role: 'member' | 'viewer' = 'member') {
  const { rig } = site;
  return addUser(rig.store, rig.random, { tenant_id: rig.ids.tenant_id, name, role });
}

test('a command in a workload says what it printed, and how it ended', part, async () => {
  const asked = await einsora(['ssh', box.name, '--', 'cat; echo err >&2; exit 3'], {
    input: 'hi',
  });
  assert.deepEqual([asked.code, asked.stdout, asked.stderr], [3, 'hi', 'err\n']);
  const by_id = await einsora(['ssh', box.id, 'pwd']);
  assert.equal(by_id.stdout.trim(), join(root, 'workspace'));
});

test('options of ssh go to ssh', part, async () => {
  const asked = await einsora(['ssh', box.name, '-v', '-o', 'SetEnv LC_X=there', 'echo $LC_X']);
  assert.equal(asked.stdout, 'there\n');
  assert.match(asked.stderr, /Authenticated to/);
});

test('who goes in is in the activity log, and nothing of what they do', part, async () => {
  const { store } = site.rig;
  await einsora(['ssh', box.name, '--', 'echo a very private word']);
  const rows = await select(store, "select * from activity where route = 'ssh'");
  assert.ok(rows.length > 0);
  const last = rows.at(-1);
  assert.equal(last?.target, `workload:${box.id}`);
  assert.equal(last?.actor, 'user:op');
  assert.ok(!JSON.stringify(rows).includes('private'));
  assert.ok(!JSON.stringify(site.rig.lines).includes('private'));
  assert.ok(site.touched.includes(box.id));
});

test('why not, where it cannot be', part, async () => {
  const missing = await einsora(['ssh', 'nothing', 'true']);
  assert.equal(missing.code, 4);
  assert.match(missing.stderr, /not_found.*nothing/);
  const option = await einsora(['ssh', '-oProxyCommand=touch /tmp/pwned', 'true']);
  assert.equal(option.code, 2);
  const viewer = await member('looker', 'viewer');
  const refused = await einsora(['ssh', box.name, 'true'], viewer);
  assert.equal(refused.code, 255);
  assert.match(refused.stderr, /error forbidden: .*member/);
  const stopped = await site.addNotebook();
  await site.move(stopped, 'stopped');
  const parked = await einsora(['ssh', stopped.name, 'true']);
  assert.equal(parked.code, 255);
  assert.match(parked.stderr, /error not_ready: .*stopped/);
  const endpoint = await site.addNotebook();
  const text = "update workloads set kind = 'endpoint' where id = $1";
  await site.rig.store.transact('write', { text, params: [endpoint.id] });
  const closed = await einsora(['ssh', endpoint.name, 'true']);
  assert.match(closed.stderr, /error no_shell: .*only answer requests/);
});

test(
  'ssh, scp and sftp reach a workload by its name once ssh-config was written',
  part,
  async () => {
    mkdirSync(join(home, '.ssh'), { mode: 0o700 });
    const path = join(home, '.ssh/config');
    const own = '# mine\r\nHost other\r\n  User somebody\n';
    writeFileSync(path, own);
    chmodSync(path, 0o640);
    for (let times = 0; times < 2; times += 1) {
      const done = await einsora(['ssh-config', '--write']);
      assert.equal(done.code, 0, done.stderr);
      const now = readFileSync(path, 'utf8');
      assert.ok(now.endsWith(own), 'what was there stays');
      assert.equal(now.split('>>> einsora').length, 2, 'our block is there once');
      assert.equal(statSync(path).mode & 0o777, 0o640);
    }
    const host = `${box.name}.einsora`;
    const asked = await plain('ssh', [host, 'echo plain; exit 4']);
    assert.deepEqual([asked.code, asked.stdout], [4, 'plain\n'], asked.stderr);
    writeFileSync(join(folder, 'a file'), 'content');
    const sent = await plain('scp', [join(folder, 'a file'), `${host}:sent`]);
    assert.equal(sent.code, 0, sent.stderr);
    assert.equal(readFileSync(join(root, 'workspace/sent'), 'utf8'), 'content');
    const seen = await plain('ssh', ['-G', 'other']);
    assert.match(seen.stdout, /^user somebody$/m);
    assert.doesNotMatch(seen.stdout, /proxycommand/);
    const removed = await einsora(['ssh-config', '--remove']);
    assert.equal(removed.code, 0, removed.stderr);
    assert.equal(readFileSync(path, 'utf8'), own);
    assert.deepEqual(readdirSync(join(home, '.config/einsora/ssh/hosts')), []);
    rmSync(path);
  },
);

test('what was stopped for being idle is woken, and waited for', part, async () => {
  const made = await site.addNotebook();
  asleep.push(made);
  const text = "update workloads set state = 'stopped', park_cause = 'idle' where id = $1";
  await site.rig.store.transact('write', { text, params: [made.id] });
  const ended = 'update runs set ended_at = 1 where workload_id = $1';
  await site.rig.store.transact('write', { text: ended, params: [made.id] });
  const asked = await einsora(['ssh', made.name, 'echo awake']);
  assert.equal(asked.stdout, 'awake\n', asked.stderr);
});

test('each context has hosts of its own, whichever is current', part, async () => {
  const { token, token_id } = await member('traveller');
  const desk = {
    ...{ url: site.origin, user: 'traveller', tenant: 'local', token, token_id },
    ...{ expires_at: null, mark: null },
  };
  const contexts = join(home, '.config/einsora/contexts.json');
  mkdirSync(join(home, '.config/einsora'), { recursive: true });
  const text = JSON.stringify({ current: 'desk', contexts: { desk } });
  writeFileSync(contexts, text, { mode: 0o600 });
  const how = { env: env(), timeout_ms: 30_000 };
  assert.equal((await exec(launcher, ['ssh-config', '--write'], how)).code, 0);
  assert.equal((await einsora(['ssh-config', '--write'])).code, 0);
  writeFileSync(contexts, JSON.stringify({ current: null, contexts: { desk } }), { mode: 0o600 });
  const actors = async (host: string) => {
    assert.equal((await plain('ssh', [host, 'echo in'])).stdout, 'in\n', host);
    const rows = await select(site.rig.store, "select * from activity where route = 'ssh'");
    return rows.at(-1)?.actor;
  };
  assert.equal(await actors(`${box.name}.desk.einsora`), 'user:traveller');
  assert.equal(await actors(`${box.name}.einsora`), 'user:op');
  await einsora(['ssh-config', '--remove']);
  assert.ok(existsSync(join(home, '.ssh/config')), 'the other one is still there');
  await exec(launcher, ['--context', 'desk', 'ssh-config', '--remove'], how);
  assert.ok(!existsSync(join(home, '.ssh/config')));
  rmSync(contexts);
});

test('a file that was not there is not there after it is undone', part, async () => {
  await einsora(['ssh-config', '--write']);
  assert.equal(statSync(join(home, '.ssh/config')).mode & 0o777, 0o600);
  await einsora(['ssh-config', '--remove']);
  assert.ok(!existsSync(join(home, '.ssh/config')));
});

test('a block with one mark gone is left alone', part, async () => {
  const path = join(home, '.ssh/config');
  const torn = '# <<< einsora <<<\nHost a\n';
  writeFileSync(path, torn);
  const done = await einsora(['ssh-config', '--write']);
  assert.equal(done.code, 1);
  assert.equal(readFileSync(path, 'utf8'), torn);
  rmSync(path);
});

test('a name that would mean something to a shell is no host of ours', part, async () => {
  await einsora(['ssh-config', '--write']);
  const evil = `x'$(touch ${join(folder, 'pwned')})'.einsora`;
  const asked = await plain('ssh', ['-o', 'ConnectTimeout=2', evil, 'true']);
  assert.equal(asked.code, 255);
  const quiet = await plain('ssh', [`$(touch ${join(folder, 'pwned')}).einsora`, 'true']);
  assert.equal(quiet.code, 255);
  assert.ok(!existsSync(join(folder, 'pwned')));
  await einsora(['ssh-config', '--remove']);
});

test('another host key than the pinned one is refused', part, async () => {
  await einsora(['ssh-config', '--write']);
  const pins = join(home, '.config/einsora/ssh');
  const [hosts = ''] = readdirSync(join(pins, 'hosts'));
  const name = hosts.replace(/conf$/, 'known_hosts');
  const pinned = readFileSync(join(pins, name), 'utf8');
  const other = await makeKey(folder, 'other', ['-t', 'ed25519']);
  const [alias = ''] = pinned.split(' ');
  writeFileSync(join(pins, name), `${alias} ${readFileSync(`${other}.pub`, 'utf8')}`);
  const asked = await plain('ssh', [`${box.name}.einsora`, 'true']);
  assert.equal(asked.code, 255);
  assert.match(asked.stderr, /verification failed|HAS CHANGED/);
  await einsora(['ssh-config', '--remove']);
});

async function withKeys(text: string): Promise<Notebook> {
  const made = await site.addNotebook();
  const spec = JSON.stringify({ kind: 'notebook', name: made.name, ssh_public_key: text });
  const update = 'update workloads set spec = $2 where id = $1';
  await site.rig.store.transact('write', { text: update, params: [made.id, spec] });
  return made;
}

for (const [kind, args] of [
  ['ed25519', ['-t', 'ed25519']],
  ['ecdsa', ['-t', 'ecdsa', '-b', '384']],
  ['rsa', ['-t', 'rsa', '-b', '2048']],
] as const) {
  test(`where a workload names a key of ${kind}, nothing else lets in`, part, async () => {
    const path = await makeKey(folder, `key-${kind}`, [...args]);
    const locked = await withKeys(readFileSync(`${path}.pub`, 'utf8'));
    const only = (key: string) => ['-o', 'IdentitiesOnly=yes', '-o', 'BatchMode=yes', '-i', key];
    const other = await makeKey(folder, `stranger-${kind}`, [...args]);
    const refused = await einsora(['ssh', locked.name, ...only(other), 'true']);
    assert.equal(refused.code, 255);
    assert.match(refused.stderr, /Permission denied \(publickey\)/);
    const taken = await einsora(['ssh', locked.name, ...only(path), 'echo in']);
    assert.equal(taken.stdout, 'in\n', taken.stderr);
  });
}

test('an RSA key that signs by SHA-1 is refused', part, async () => {
  const path = await makeKey(folder, 'key-old', ['-t', 'rsa', '-b', '2048']);
  const locked = await withKeys(readFileSync(`${path}.pub`, 'utf8'));
  const old = ['-o', 'PubkeyAcceptedAlgorithms=ssh-rsa', '-o', 'BatchMode=yes', '-i', path];
  const refused = await einsora(['ssh', locked.name, ...old, '-o', 'IdentitiesOnly=yes', 'true']);
  assert.equal(refused.code, 255);
  assert.match(refused.stderr, /Permission denied|no mutual signature/);
});

/** A session that would go on, until `end`; resolves with what it said and how long that took. */
async function cutBy(workload: Notebook, how: How, end: () => Promise<unknown>) {
  const sign = join(root, 'workspace', `on-${workload.name}`);
  rmSync(sign, { force: true });
  const asked = einsora(['ssh', workload.name, '--', `touch on-${workload.name}; sleep 600`], how);
  while (!existsSync(sign)) await systemClock.sleep(20);
  const began = performance.now();
  await end();
  const { code, stderr } = await asked;
  return { code, stderr, ms: performance.now() - began };
}

test('a revoked token ends a session within a second, and says so', part, async () => {
  const user = await member('brief');
  const { revocations } = site.rig.apiDeps;
  const cut = await cutBy(box, user, async () => revocations.tell({ proof_id: user.token_id }));
  assert.equal(cut.code, 255);
  assert.match(cut.stderr, /einsora: what you signed in with has ended or was revoked/);
  assert.ok(cut.ms < 1000, `${cut.ms}`);
});

test('so does a token that is revoked over the API', part, async () => {
  const user = await member('briefer');
  const mine = { authorization: `Bearer ${user.token}` };
  const cut = await cutBy(box, user, () =>
    site.ask('DELETE', `/v1/tokens/${user.token_id}`, mine).then((told) => {
      assert.equal(told.status, 204, told.text);
    }),
  );
  assert.equal(cut.code, 255);
  assert.ok(cut.ms < 1500, `${cut.ms}`);
});

test('so does a stop, and a new run', part, async () => {
  const stopped = await site.addNotebook();
  const first = await cutBy(stopped, {}, () => site.move(stopped, 'stopping'));
  assert.match(first.stderr, /einsora: lab-\w+ was stopped, or begun anew/);
  assert.ok(first.ms < 1500, `${first.ms}`);
  const renewed = await site.addNotebook();
  const second = await cutBy(renewed, {}, () => site.move(renewed, 'running', 2));
  assert.equal(second.code, 255);
  assert.ok(second.ms < 1500, `${second.ms}`);
});
