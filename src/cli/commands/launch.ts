/**
 * `einsora launch`: one command for each kind.
 */
import { type Command, Option } from 'commander';
import { parseAmount, parseCount, parseDuration, parseSize } from '../parse.ts';
import { type Go, json_text, timeout_text } from './go.ts';

const accelerators = ['cpu', 'nvidia', 'apple'];
const fallback_text =
  'what may stand in for what is asked: class:NAME, cpu, machine:NAME, model:NAME, region:NAME; may be repeated, in order';

export function addLaunch(program: Command, go: Go): void {
  const group = program.command('launch').description('launch a workload and stay until it runs');
  addEndpoint(group, go);
  withExtras(sized(group, 'notebook', 'JupyterLab, with a workspace that stays'))
    .option('--no-open', 'do not open it in a browser')
    .action(
      go(async (context, options) =>
        (await import('../launch.ts')).launch(context, 'notebook', {}, options),
      ),
    );
  withExtras(sized(group, 'instance', 'a program in a container, with a workspace that stays'))
    .argument('[command...]', 'after --: the program to run; else what its image begins with')
    .action(
      go(async (context, command: string[], options) =>
        (await import('../launch.ts')).launch(context, 'instance', { command }, options),
      ),
    );
  sized(group, 'vm', 'a virtual machine (planned: no driver runs one yet, so it waits)').action(
    go(async (context, options) =>
      (await import('../launch.ts')).launch(context, 'vm', {}, options),
    ),
  );
}

function addEndpoint(group: Command, go: Go): void {
  sized(group, 'endpoint', 'a model behind an OpenAI-compatible API')
    .argument(
      '<model>',
      'of the catalog, hf://owner/repo[:quantization], https://…, or a path to a GGUF file',
    )
    .option('--image <image>', 'the engine to run it, from the catalog; else the one that suits it')
    .option('--context-length <tokens>', 'context of each request, in tokens', parseCount)
    .option('--parallel <count>', 'requests answered at the same time', parseCount)
    .option(
      '--replicas <count>',
      'how many runs of it are to answer, on different machines where there are',
      parseCount,
    )
    .action(
      go(async (context, model: string, options) =>
        (await import('../launch.ts')).launch(context, 'endpoint', { model }, options),
      ),
    );
}

function sized(group: Command, kind: string, what: string): Command {
  return group
    .command(kind)
    .description(what)
    .option('--name <name>', 'its name; chosen from the model or the kind where left out')
    .option('--class <class>', 'its size, from the catalog; else the smallest that fits')
    .option('--cpu <cores>', 'at least so many cores', parseAmount)
    .option('--memory <size>', 'at least so much memory, such as 4GiB', parseSize)
    .addOption(new Option('--accelerator <kind>', 'what it must run on').choices(accelerators))
    .option('--gpu-class <class>', 'the same as --class')
    .option(
      '--gpus <count>',
      'so many GPUs of one machine; on nvidia one where left out',
      parseCount,
    )
    .option('--share-gpu', 'let other workloads of yours that say so too use its GPU')
    .option('--region <name>', 'where it is to run; needed where there is more than one')
    .option('--machine <name>', 'the only machine that it may run on')
    .option('--fallback <step>', fallback_text, collect)
    .option('--fallback-after <time>', 'wait so long before that; else 10m', parseDuration)
    .option('--return', 'endpoints: go back from a fallback once what was asked is free')
    .option('--make-room', 'where it would wait: stop idle endpoints of yours that are in the way')
    .option('--idle <time>', 'stop it when nothing happened in it for so long', parseDuration)
    .option('--plan', 'show where it would run, and why not elsewhere; launch nothing')
    .option('--detach', 'leave once it is recorded')
    .option('--timeout <time>', timeout_text, parseDuration)
    .option('--json', json_text);
}

function withExtras(command: Command): Command {
  return command
    .option('--image <image>', "of the catalog, or a registry's reference with a slash or a tag")
    .option('--disk <size>', 'room for its workspace, such as 20GiB', parseSize)
    .option('--env <variable>', 'NAME=value, or NAME=secret:stored-name; may be repeated', collect)
    .option('--env-file <file>', 'a file of such lines; may be repeated', collect)
    .option('--ssh-key <file>', 'public keys that may come in by SSH; may be repeated', collect);
}

function collect(value: string, before: string[] | undefined): string[] {
  return [...(before ?? []), value];
}
