/**
 * What the program's exit code means: one table, from which the reference is made as well.
 */
export const exitCodes = {
  ok: { code: 0, means: 'done' },
  failed: { code: 1, means: 'something failed, or did not happen in the time given' },
  usage: { code: 2, means: 'the command line or the request is not valid' },
  unreachable: { code: 3, means: 'no control plane answers for this data folder' },
  not_found: { code: 4, means: 'there is no such workload' },
  refused: { code: 5, means: 'the control plane refused; the error says why' },
  workload_failed: { code: 6, means: 'the workload failed' },
  connection_lost: { code: 255, means: 'the connection to what it was in broke off' },
  interrupted: { code: 130, means: 'interrupted by Ctrl-C; what was recorded goes on' },
} as const satisfies Record<string, { code: number; means: string }>;

export type ExitName = keyof typeof exitCodes;

export function exitCode(name: ExitName): number {
  return exitCodes[name].code;
}

/** Where an answer of the API leads: by its status, and by its code where that says more. */
export function exitOfAnswer(status: number, code: string): ExitName {
  if (code === 'control_plane_unreachable') return 'unreachable';
  if (code === 'bad_request') return 'usage';
  if (status === 404) return 'not_found';
  return status >= 400 && status < 500 ? 'refused' : 'failed';
}
