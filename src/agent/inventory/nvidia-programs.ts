/**
 * Programs that compute on GPUs and are not of Einsora: the best sign that a machine's owner wants
 * the GPU.
 *
 * Invariants: a program of which we cannot tell whose it is counts as the owner's; ours are those
 * in containers that carry our label; nothing is ended here.
 */
import { plainText } from '../../lib/text.ts';
import type { MachineReader } from './machine-reader.ts';
import { nvidia_timeout_ms } from './nvidia-smi.ts';

export type GpuProgram = { gpu_uuid: string; pid: number; name: string };

const most_programs = 256;

/** Null where the tool did not say (inside Windows it cannot). */
export async function askPrograms(reader: MachineReader): Promise<GpuProgram[] | null> {
  const args = ['--query-compute-apps=gpu_uuid,pid,process_name', '--format=csv,noheader'];
  const result = await reader.run('nvidia-smi', args, nvidia_timeout_ms);
  return result.outcome === 'exited' && result.code === 0 ? parsePrograms(result.stdout) : null;
}

export function parsePrograms(csv: string): GpuProgram[] {
  return plainText(csv)
    .split('\n')
    .flatMap((line): GpuProgram[] => {
      const [uuid = '', pid = '', ...rest] = line.split(',').map((cell) => cell.trim());
      if (!/^(GPU|MIG)-[\w/-]{1,90}$/.test(uuid) || !/^\d{1,10}$/.test(pid)) return [];
      const path = rest.join(',');
      const name = path.startsWith('[') ? 'a program' : (path.split(/[/\\]/).at(-1) ?? '');
      return [{ gpu_uuid: uuid, pid: Number(pid), name: name.slice(0, 40) || 'a program' }];
    })
    .slice(0, most_programs);
}

/** Without those in our containers, which are told by the ids of containers in their groups. */
export function foreignPrograms(
  reader: Pick<MachineReader, 'read'>,
  programs: readonly GpuProgram[],
  our_containers: readonly string[],
): GpuProgram[] {
  return programs.filter(({ pid }) => {
    const groups = reader.read(`/proc/${pid}/cgroup`) ?? '';
    return !our_containers.some((id) => id !== '' && groups.includes(id));
  });
}
