/**
 * The engine out of the wheel: the machine's Python, our script, and the wheel's folder.
 *
 * Invariants: Python runs isolated (-I: no variables, no user packages), without the packages of
 * its installation (-S) and writing no byte code (-B). The wheel stands in a plain folder that the
 * script puts on its search path: it has no dependencies, so a virtual environment would add
 * files, tie the folder to its place, and isolate nothing more.
 */
import type { WheelPin } from '../../lib/wheel.ts';
import type { Python } from '../../lib/wheel-python.ts';
import type { Engine } from '../runtime.ts';
import { pythonFiles } from './system-files.ts';

const wheel_target = '/opt/einsora/engine';
const script_target = '/opt/einsora/serve.py';

export function wheelEngine(python: Python, folder: string, pin: WheelPin, script: string): Engine {
  return {
    label: `${pin.name} ${pin.version}, Python ${python.version}`,
    dialect: 'xllamacpp',
    program: [python.executable, '-I', '-S', '-B', script_target, wheel_target],
    mounts: [
      ...pythonFiles(python),
      { source: folder, target: wheel_target, writable: false },
      { source: script, target: script_target, writable: false },
    ],
    flags: [],
  };
}
