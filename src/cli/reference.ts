/**
 * The reference of the command line (docs/cli.md), made from its definitions.
 *
 * Invariants: the same text every time for the same definitions.
 */
import type { Command } from 'commander';
import { exitCodes } from './exit-codes.ts';

/** The whole page. */
export function cliReference(program: Command): string {
  const sections = commandsOf(program).map(sectionOf);
  return [
    '# The command line',
    '',
    'Made from the definitions in `src/main.ts`; do not edit. `npm run openapi` makes it anew.',
    '',
    'stdout is data, stderr is talk. `--json` prints one JSON document on stdout, also where',
    'something failed (`{"error": {"code", "message", "fix", "request_id"}}`); what follows',
    'without end (`-f`) prints one for each line. Every command takes:',
    '',
    ...optionTable(program),
    '',
    '## Exit codes',
    '',
    '| code | means |',
    '|---|---|',
    ...Object.values(exitCodes).map(({ code, means }) => `| ${code} | ${means} |`),
    '',
    ...sections,
  ].join('\n');
}

/** Commands that do something, groups replaced by their members. */
function commandsOf(program: Command): Command[] {
  return program.commands.flatMap((command) =>
    command.commands.length === 0 ? [command] : commandsOf(command),
  );
}

function sectionOf(command: Command): string {
  const values = command.registeredArguments
    .filter((argument) => argument.description !== '')
    .map((argument) => `| \`${argument.name()}\` | ${cell(argument.description)} |`);
  const options = optionTable(command);
  const args = values.length === 0 ? [] : ['| argument | |', '|---|---|', ...values, ''];
  return [
    `## einsora ${pathOf(command)}`,
    '',
    `${capitalised(command.description())}.`,
    '',
    '```',
    `einsora ${pathOf(command)} ${command.usage()}`.trimEnd(),
    '```',
    '',
    ...args,
    ...(options.length === 0 ? [] : [...options, '']),
  ].join('\n');
}

function optionTable(command: Command): string[] {
  const rows = command.options
    .filter((option) => !option.hidden)
    .map((option) => {
      const choices = option.argChoices === undefined ? '' : ` (${option.argChoices.join(', ')})`;
      return `| \`${option.flags}\` | ${cell(option.description)}${choices} |`;
    });
  return rows.length === 0 ? [] : ['| option | |', '|---|---|', ...rows];
}

/** The names from below the program down to a command. */
function pathOf(command: Command): string {
  const above = command.parent;
  const has_group = above !== null && above.parent !== null;
  return has_group ? `${pathOf(above)} ${command.name()}` : command.name();
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|');
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
