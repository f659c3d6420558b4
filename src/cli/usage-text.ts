/**
 * What is said of a command line that cannot be read: what is wrong, and the help that is near.
 */
import type { Command } from 'commander';

/** Lines for stderr, in the shape of every other error; `said` is commander's own sentence. */
export function usageText(program: Command, argv: readonly string[], said: string): string {
  const [first = '', ...others] = said.trim().split('\n');
  const sentence = first.replace(/^error: /, '');
  const near = /^\(Did you mean (?:one of )?(.+)\?\)$/.exec(others.join(' '))?.[1];
  const fix = near === undefined ? helpOf(calledOf(program, argv)) : `did you mean ${near}?`;
  return `error bad_request: ${sentence}\n  fix: ${fix}\n`;
}

/** The command that prints the help of another one. */
export function helpOf(command: Command): string {
  const path: string[] = [];
  for (let at: Command | null = command; at?.parent; at = at.parent) path.unshift(at.name());
  return ['bin/einsora', ...path, '--help'].join(' ');
}

/** As far as the words name commands. */
function calledOf(program: Command, argv: readonly string[]): Command {
  let called = program;
  for (const word of argv) {
    called = called.commands.find((command) => command.name() === word) ?? called;
  }
  return called;
}
