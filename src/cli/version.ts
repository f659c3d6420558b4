/**
 * `einsora version`: of this program, and of the control plane where one serves.
 */
import { readFileSync } from 'node:fs';
import { findControlPlane } from './control-plane.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { printData, printJson } from './output.ts';

export type VersionOptions = { json?: boolean };

export async function version(context: Context, options: VersionOptions): Promise<number> {
  const found = findControlPlane(context.config);
  const control_plane = found === null ? null : { version: found.version, url: found.url };
  const own = {
    version: programVersion(),
    node: process.versions.node,
    platform: `${process.platform}-${process.arch}`,
  };
  if (options.json) {
    printJson(context, { ...own, control_plane });
    return exitCode('ok');
  }
  printData(context, `einsora ${own.version} (node ${own.node}, ${own.platform})`);
  if (control_plane !== null) {
    printData(context, `control plane ${control_plane.version} at ${control_plane.url}`);
  }
  return exitCode('ok');
}

/** The version of this program. */
export function programVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return String((JSON.parse(text) as { version: unknown }).version);
}
