/**
 * A process of a bench that is a script of it: started with the same Node, it says in its first
 * line how it is asked.
 */
import { spawnChild } from '../src/lib/exec.ts';

export type Child<Asked> = { asked: Asked; pid: number; stop(): void };

export async function startScript<Asked>(
  path: string,
  args: string[],
  { env = {}, node = [] }: { env?: Record<string, string>; node?: string[] } = {},
): Promise<Child<Asked>> {
  const flags = ['--disable-warning=ExperimentalWarning', ...node];
  const made = spawnChild(process.execPath, [...flags, path, ...args], { env });
  const { stdout } = made;
  if (stdout === null) throw new Error('the child has no stdout');
  let said = '';
  made.stderr?.on('data', (chunk) => {
    said = (said + chunk).slice(-2000);
  });
  const line = await new Promise<string>((resolve, reject) => {
    let text = '';
    stdout.on('data', (chunk) => {
      text += chunk;
      if (text.includes('\n')) resolve(text);
    });
    made.once('exit', () => reject(new Error(`${args[0]} ended: ${said}`)));
  });
  const asked = JSON.parse(line) as Asked;
  return { asked, pid: made.pid ?? 0, stop: () => void made.kill('SIGKILL') };
}
