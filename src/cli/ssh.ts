/**
 * `einsora ssh`: OpenSSH's own client, into a workload; and `einsora ssh-proxy`, by which it gets
 * there: the bytes of its connection over the control plane's.
 */
import { once } from 'node:events';
import { raw_protocol } from '../contract/upgrades.ts';
import { spawnChild } from '../lib/exec.ts';
import { findProgram } from '../lib/which.ts';
import { CliError, usageError } from './cli-error.ts';
import { openClient } from './client.ts';
import { wholeEnv } from './config.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { findDeployment, pinHostKey, sshSettings } from './ssh-settings.ts';
import { onWorkload } from './workload-name.ts';

/** `args`: options and a command for OpenSSH's client. Its exit code is ours. */
export async function ssh(context: Context, name: string, args: string[]): Promise<number> {
  checkName(name);
  const env = wholeEnv();
  const program = findProgram('ssh', env.PATH);
  if (program === null) throw noClient();
  const deployment = findDeployment(context.config);
  const client = openClient(context);
  const workload = await onWorkload(client, name, () => client.show(name));
  await pinHostKey(context, deployment);
  const settings = sshSettings(deployment, workload.id).flatMap(([key, value]) => [
    ...['-o', `${key}=${value}`],
  ]);
  const host = `${workload.name}${deployment.suffix}`;
  const child = spawnChild(program, [...settings, host, ...args], { env, inherit: true });
  // Ctrl-C is for the program on the other side.
  const release = context.io.onInterrupt(() => {});
  try {
    const [code, signal] = (await once(child, 'exit')) as [number | null, string | null];
    return code ?? (signal === 'SIGINT' ? exitCode('interrupted') : exitCode('failed'));
  } finally {
    release();
  }
}

/** `host`: a workload's name or id, or a host's name that `ssh-config` made of one. */
export async function sshProxy(context: Context, host: string): Promise<number> {
  const { stdin, stdout } = context.io;
  const name = host.split('.')[0] ?? '';
  checkName(name);
  const path = `/v1/workloads/${encodeURIComponent(name)}/ssh`;
  const { socket, head } = await openClient(context).upgrade(path, raw_protocol);
  socket.setNoDelay(true);
  if (head.length > 0) stdout.write(head);
  socket.on('error', () => socket.destroy());
  stdin.pipe(socket);
  socket.pipe(stdout, { end: false });
  await once(socket, 'close');
  stdin.unpipe(socket).destroy();
  return exitCode('ok');
}

/** What could not be an option of ssh, nor anything to the shell that it starts. */
function checkName(name: string): void {
  if (/^[a-z0-9][a-z0-9-]*$/i.test(name)) return;
  throw usageError(`${name} is no name of a workload`, 'bin/einsora ls');
}

function noClient(): CliError {
  return new CliError({
    code: 'ssh_missing',
    message: "OpenSSH's client is not on this machine.",
    fix: 'apt-get install openssh-client',
    exit: 'failed',
  });
}
