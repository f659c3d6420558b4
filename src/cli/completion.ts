/**
 * `einsora completion`: scripts for bash, zsh and fish, and the answers that they ask for.
 *
 * Invariants: a question is answered within moments and in silence: what cannot be had in time is
 * left out; nothing that is typed is ever run; the tree of commands is commander's own.
 */
import { join } from 'node:path';
import tab, { type Complete, type RootCommand, script } from '@bomb.sh/tab';
import type { Command, Option } from 'commander';
import { shellWord } from './cli-error.ts';
import { filesOf, type Name, namesOf, nounOfArgument, nounOfOption } from './completion-names.ts';
import { loadConfig } from './config.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { printData } from './output.ts';

const launcher = join(import.meta.dirname, '../../bin/einsora');

export async function completion(
  context: Context,
  shell: 'bash' | 'zsh' | 'fish',
): Promise<number> {
  if (shell === 'bash') printData(context, bashScript(shellWord(launcher)));
  else script(shell, 'einsora', shellWord(launcher));
  return exitCode('ok');
}

/** Answers a shell: candidates for the last of `words`, one a line. */
export async function complete(
  context: Context,
  program: Command,
  words: string[],
): Promise<number> {
  const typed = words.at(-1) ?? '';
  const command = commandOf(program, words.slice(0, -1));
  const nouns = new Set([
    ...command.registeredArguments.map((one) => nounOfArgument(pathOf(command), one.name())),
    ...optionsOf(command).map((option) => nounOfOption(option.attributeName())),
  ]);
  const here = { ...context, config: loadConfig(globalsOf(words)) };
  const names = await namesOf(here, nouns);
  const offer = (noun: string | null, complete: Complete) => {
    for (const { value, description } of names.get(noun ?? '') ?? []) complete(value, description);
    if (noun === 'catalog') for (const file of filesOf(context.io.cwd, typed)) complete(file, '');
  };
  addCommand(tab, program, '', offer);
  tab.parse([...words]);
  return exitCode('ok');
}

type Offer = (noun: string | null, complete: Complete) => void;

/** Tells the library what commander knows. */
function addCommand(root: RootCommand, command: Command, path: string, offer: Offer): void {
  const known = path === '' ? root : root.command(path, command.description());
  for (const option of optionsOf(command)) {
    const name = option.long?.slice(2);
    if (name === undefined) continue;
    const short = option.short?.slice(1);
    const takes_value = option.required || option.optional;
    const choices: Name[] = (option.argChoices ?? []).map(named);
    if (!takes_value) known.option(name, option.description, short);
    else {
      const handler = (complete: Complete) => {
        for (const { value, description } of choices) complete(value, description);
        offer(nounOfOption(option.attributeName()), complete);
      };
      known.option(name, option.description, handler, short);
    }
  }
  for (const argument of command.registeredArguments) {
    const choices = (argument.argChoices ?? []).map(named);
    const handler = (complete: Complete) => {
      for (const { value, description } of choices) complete(value, description);
      offer(nounOfArgument(path, argument.name()), complete);
    };
    known.argument(argument.name(), handler, argument.variadic);
  }
  for (const child of visible(command)) {
    addCommand(root, child, path === '' ? child.name() : `${path} ${child.name()}`, offer);
  }
}

function named(value: string): Name {
  return { value, description: '' };
}

function optionsOf(command: Command): Option[] {
  return [...command.createHelp().visibleOptions(command)];
}

function visible(command: Command): Command[] {
  return [...command.createHelp().visibleCommands(command)];
}

/** The command that the words before the last one name. */
function commandOf(program: Command, words: string[]): Command {
  let command = program;
  for (const word of words) {
    command = visible(command).find((child) => child.name() === word) ?? command;
  }
  return command;
}

function pathOf(command: Command): string {
  const names: string[] = [];
  for (let one: Command | null = command; one?.parent; one = one.parent) names.unshift(one.name());
  return names.join(' ');
}

/** The options that choose a control plane, where they are typed already. */
function globalsOf(words: string[]): { data_dir?: string; context?: string } {
  const after = (name: string) => words[words.indexOf(name) + 1];
  const data_dir = words.includes('--data-dir') ? after('--data-dir') : undefined;
  const context = words.includes('--context') ? after('--context') : undefined;
  return {
    ...(data_dir ? { data_dir } : {}),
    ...(context ? { context } : {}),
  };
}

/**
 * Ours, not the library's: its own needs the package bash-completion, and evaluates what is typed.
 */
function bashScript(program: string): string {
  return `# bash completion for einsora
_einsora_complete() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :[0-9]*) ;;
      *) COMPREPLY+=("\${line%%$'\\t'*}") ;;
    esac
  done < <(${program} complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2> /dev/null)
  # A folder is on the way to something: no space after it.
  [[ \${#COMPREPLY[@]} -eq 1 && \${COMPREPLY[0]} == */ ]] && compopt -o nospace 2> /dev/null
  return 0
}
complete -F _einsora_complete einsora`;
}
