/**
 * `einsora pause` and `resume`: the button of a machine's owner, pressed at the machine itself.
 *
 * Invariants: works without a control plane, which may be what does not answer; the agent sees it
 * within seconds; nothing is stopped here.
 */
import { existsSync } from 'node:fs';
import { formatDuration } from '../core/format.ts';
import { CliError, suggested } from './cli-error.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { printJson, say } from './output.ts';

export type PauseOptions = { for?: number; now?: boolean; all?: boolean; json?: boolean };

export async function pauseHere(context: Context, options: PauseOptions): Promise<number> {
  const { config, io } = context;
  const { buttonPath, pressButton } = await loadButton(context);
  const until = options.for === undefined ? null : Math.round(io.clock.now() + options.for);
  const button = { until, now: options.now === true, everyone: options.all === true };
  pressButton(buttonPath(config.data_dir), button);
  if (options.json) {
    printJson(context, { paused: true, ...button });
    return exitCode('ok');
  }
  const resume = suggested(config, 'resume');
  const how_long =
    options.for === undefined ? `until: ${resume}` : `for ${formatDuration(options.for)}`;
  say(context, `Nothing new starts on this machine ${how_long}.`);
  say(context, button.now ? 'Guests go at once.' : 'Guests are told, and go after their grace.');
  say(
    context,
    button.everyone
      ? 'Your own workloads stand still, where they can, and go on where they were.'
      : 'Your own workloads go on.',
  );
  return exitCode('ok');
}

export async function resumeHere(context: Context, options: { json?: boolean }): Promise<number> {
  const { config } = context;
  const { buttonPath, releaseButton } = await loadButton(context);
  const was_paused = releaseButton(buttonPath(config.data_dir));
  if (options.json) printJson(context, { paused: false, was_paused });
  else {
    say(
      context,
      was_paused ? 'This machine takes workloads again.' : 'This machine was not paused.',
    );
  }
  return exitCode('ok');
}

async function loadButton({ config }: Context) {
  if (!existsSync(config.data_dir)) {
    const message = `Einsora has not run on this machine: ${config.data_dir} is not there.`;
    const fix = suggested(config, 'up');
    throw new CliError({ code: 'not_found', message, fix, exit: 'not_found' });
  }
  return import('../agent/guard/button.ts');
}
