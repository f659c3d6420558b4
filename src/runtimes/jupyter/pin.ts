/**
 * The pinned environment of notebooks: one file of requirements, and about how large it is.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { digest } from '../../lib/secret.ts';
import type { WheelPin } from '../../lib/wheel.ts';
import type { Python } from '../../lib/wheel-python.ts';

const requirements_path = fileURLToPath(new URL('./requirements.txt', import.meta.url));

/** Of this version of the file: what comes over the network, and what it becomes on the disk. */
const figures = { bytes: 50_100_000, unpacked_bytes: 160_000_000 };

/** Its files differ between minor versions of Python. */
export function jupyterPin({ version }: Pick<Python, 'version'>): WheelPin {
  const requirements = readFileSync(requirements_path, 'utf8');
  const lab = /^jupyterlab==(\S+)/m.exec(requirements)?.[1] ?? 'unknown';
  const minor = version.split('.').slice(0, 2).join('.');
  return {
    name: 'jupyter',
    version: `${lab}-py${minor}`,
    builds: { any: { sha256: digest(requirements), ...figures } },
    requirements,
  };
}
