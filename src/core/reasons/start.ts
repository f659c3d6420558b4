/**
 * Codes of starting the program and finding it: a part of the one table in ../reasons.ts.
 */
import type { Reason } from '../reasons.ts';

export const startReasons = {
  data_dir_in_use: {
    status: 409,
    sentence: 'Another einsora serves {data_dir} already ({url}).',
    fix: 'use that one, or give this one --data-dir',
  },
  data_dir_newer: {
    status: 409,
    sentence: '{data_dir} was written by a newer Einsora (schema {found}, this one knows {known}).',
    fix: 'git pull, then bin/einsora up',
  },
  data_dir_unwritable: {
    status: 409,
    sentence: '{data_dir} cannot be written: {why}.',
    fix: 'give a folder of your own: bin/einsora up --data-dir ~/einsora-data',
  },
  port_in_use: {
    status: 409,
    sentence: 'Port {port} on {address} is taken by another program.',
    fix: 'bin/einsora up --port {suggestion}',
  },
  control_plane_unreachable: {
    status: 503,
    sentence: 'No control plane answers for {data_dir}.',
    fix: 'bin/einsora up',
  },
} as const satisfies Record<string, Reason>;
