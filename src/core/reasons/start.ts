/**
 * Codes of starting the program and finding it: a part of the one table in ../reasons.ts.
 */
import type { Reason } from '../reasons.ts';

export const startReasons = {
  data_dir_in_use: {
    status: 409,
    sentence: 'Another einsora serves {data_dir} already ({url}).',
    fix: 'use that one: bin/einsora open, or start another: bin/einsora up --data-dir ~/einsora-2',
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
  data_dir_on_network: {
    status: 409,
    sentence: '{data_dir} is on a network filesystem ({type}), where a store can be damaged.',
    fix: 'give a folder on a disk of this machine: bin/einsora up --data-dir /var/tmp/einsora',
  },
  migration_changed: {
    status: 409,
    sentence:
      '{data_dir} was made by another program: step {version} ({name}) of its schema differs.',
    fix: 'use the program that made it, or start anew: bin/einsora up --data-dir ~/einsora-data',
  },
  migration_failed: {
    status: 500,
    sentence: 'Step {version} ({name}) of the schema of {data_dir} failed; nothing of it was done.',
    fix: 'bin/einsora doctor',
  },
  store_damaged: {
    status: 500,
    sentence: 'The store in {data_dir} is damaged: {why}.',
    fix: 'keep a copy, then put a backup in its place: cp -a {data_dir} {data_dir}.damaged',
  },
  database_in_use: {
    status: 409,
    sentence: '{database} is served by another control plane already: {holder}.',
    fix: 'stop that one, or name another database in EINSORA_DATABASE_URL, then: bin/einsora up',
  },
  database_unreachable: {
    status: 503,
    sentence: '{database} does not answer: {why}.',
    fix: 'check EINSORA_DATABASE_URL, then: bin/einsora doctor',
  },
  database_unsuitable: {
    status: 409,
    sentence:
      '{database} cannot be used: {why}. It has to be Postgres 15 or later, in UTF-8, sorting by C.',
    fix: 'createdb --template=template0 --encoding=UTF8 --locale=C einsora',
  },
  sim_machines_wrong: {
    status: 400,
    sentence: 'The made-up machines in {path} cannot be read: {why}.',
    fix: 'write {"machines": [{"name": "m1"}]}, then: bin/einsora up --dev --sim-machines FILE',
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
