/**
 * The engine in an image: `llama-server` of llama.cpp, as deploy/images builds it or as its
 * publisher does.
 *
 * Invariants: it listens on the Unix socket of the run as the machine's own one does; nothing of
 * the machine is shown to it but the model.
 */
import type { ImageRuntime } from '../../core/images.ts';
import type { Engine } from '../runtime.ts';

/** What its publisher's server has had for long. */
const old_flags = ['--no-webui', '--no-slots', '--jinja'];
/** Ours always does so, and refused the flag once: an image that was built then goes on working. */
const publisher_flags = ['--metrics'];
/** What ours has besides. */
const own_flags = [
  ...['--threads-http', '--cache-ram', '--offline', '--cors-origins', '--no-kv-unified'],
  ...['--fit', '--device'],
];

export function imageEngine({ reference, command, accelerator }: ImageRuntime): Engine {
  return {
    label: `llama-server of ${reference}`,
    dialect: 'llama-server',
    program: command.length > 0 ? [...command] : ['llama-server'],
    mounts: [],
    flags: [...old_flags, ...(reference?.startsWith('localhost/') ? own_flags : publisher_flags)],
    on_gpu: accelerator !== 'cpu',
  };
}
