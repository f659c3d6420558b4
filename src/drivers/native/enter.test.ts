/**
 * enter.sh by itself, as a plain user: no control groups, no agent, a sandbox made by hand.
 */
import assert from 'node:assert/strict';
import { chmodSync, copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { needs } from '../../../test/lib/parts.ts';
import { exec } from '../../lib/exec.ts';

const nobody = '65534';

/** Makes a sandbox as the native driver does, and finds the pid of its program. */
const sandbox = `
bwrap --unshare-user --unshare-all --disable-userns --die-with-parent --new-session \\
  --cap-drop ALL --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib \\
  --symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp --remount-ro / --clearenv \\
  -- /bin/sh -c 'sleep 30; true' &
target=
while [ -z "$target" ]; do
  for status in /proc/[0-9]*/status; do
    pids=$(grep -s NSpid "$status") || continue
    case $pids in *"	"*"	2") ;; *) continue ;; esac
    pid=\${status#/proc/}; pid=\${pid%/status}
    grep -qs 'sleep 30' "/proc/$pid/cmdline" && [ -O "/proc/$pid" ] && target=$pid
  done
done
read -r stat <"/proc/$target/stat"
set -- \${stat##*) }; shift 19; ticks=$1
enter() {
  echo 'export PATH=/usr/bin:/bin' >environment
  bash ./enter.sh "$@" </dev/null
  echo "=$?"
}
`;

async function asNobody(script: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-enter-'));
  try {
    chmodSync(folder, 0o777);
    for (const name of ['enter.sh', 'enter.py']) {
      copyFileSync(join(import.meta.dirname, name), join(folder, name));
      chmodSync(join(folder, name), 0o755);
    }
    const user = ['--reuid', nobody, '--regid', nobody, '--clear-groups'];
    const text = `cd '${folder}'\n${sandbox}\n${script}\nkill $!`;
    const env = { PATH: '/usr/bin:/bin' };
    const done = await exec('setpriv', [...user, 'sh', '-c', text], { timeout_ms: 20_000, env });
    assert.equal(done.outcome, 'exited', done.stderr);
    return done.stdout;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const is_root = process.getuid?.() === 0;
const parts = needs('bwrap', 'bash', 'python');
const options = is_root ? parts : { skip: 'only root can be somebody else' };

test(
  'a plain user is in all namespaces, without capabilities and open folders',
  options,
  async () => {
    const inside = `
    for space in mnt pid net ipc uts user cgroup; do
      own=$(readlink /proc/self/ns/$space)
      test "$own" = "$(readlink /proc/2/ns/$space)" || echo "other $space"
    done
    grep -E "^Cap(Inh|Prm|Eff|Amb)" /proc/self/status | cut -f2 | sort -u
    grep NoNewPrivs /proc/self/status | cut -f2
    ls /proc/self/fd | xargs; id -u; exit 7`;
    const said = await asNobody(`enter $target $ticks ./environment '' 0 -- sh -c '${inside}'`);
    assert.equal(said, `${'0'.repeat(16)}\n1\n0 1 2 3\n${nobody}\n=7\n`);
  },
);

test('its end is told as a signal, and another process is never entered', options, async () => {
  const said = await asNobody(`
    enter $target $ticks ./environment '' 0 -- sh -c 'kill -9 $$' 2>/dev/null
    enter $target 1 ./environment '' 0 -- echo entered 2>&1
    enter 999999 1 ./environment '' 0 -- echo entered 2>&1`);
  const gone = 'einsora: no program could be started beside it: it has ended\n=125\n';
  assert.equal(said, `=137\n${gone}${gone}`);
});
