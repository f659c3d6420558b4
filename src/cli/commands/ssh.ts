/**
 * The commands by which OpenSSH's client reaches workloads.
 */
import type { Command } from 'commander';
import { type Go, json_text } from './go.ts';

export function addSsh(program: Command, go: Go): void {
  program
    .command('ssh')
    .description('a shell or a command in a workload, by OpenSSH; what follows the name goes to it')
    .argument('<workload>', 'name or id')
    .argument('[args...]', 'options of ssh such as -L 8080:localhost:80, and a command')
    .allowUnknownOption()
    .action(
      go(async (context, name: string, args: string[]) =>
        (await import('../ssh.ts')).ssh(context, name, args),
      ),
    );
  program
    .command('ssh-config')
    .description('what lets ssh, scp, sftp, rsync and editors reach workloads as NAME.einsora')
    .option('--write', 'have ~/.ssh/config include it')
    .option('--remove', 'undo that')
    .option('--json', json_text)
    .action(
      go(async (context, options) =>
        (await import('../ssh-config.ts')).sshConfig(context, options),
      ),
    );
  program
    .command('ssh-proxy', { hidden: true })
    .argument('<host>')
    .action(
      go(async (context, host: string) => (await import('../ssh.ts')).sshProxy(context, host)),
    );
}
