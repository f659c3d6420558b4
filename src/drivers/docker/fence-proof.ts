/**
 * A packet out of a container's network, to see that the rules see it.
 *
 * Invariants: it goes to the container's own gateway, which drops it; what the container has in it
 * is not used; a container that has ended by then proves nothing, and is no error.
 */
import { exec } from '../../lib/exec.ts';
import { system_path } from './nft.ts';

const patience_ms = 8000;
const program = `
  const [address, port] = process.argv.slice(1);
  const socket = require('node:dgram').createSocket('udp4');
  socket.send('einsora', Number(port), address, (error) => {
    socket.close();
    process.exitCode = error ? 1 : 0;
  });
`;

/** Whether one could be sent. */
export async function provePacket(pid: number, address: string, port: number): Promise<boolean> {
  if (pid <= 0) return false;
  const args = [`--net=/proc/${pid}/ns/net`, '--', process.execPath, '-e', program];
  const done = await exec('nsenter', [...args, address, String(port)], {
    ...{ env: { PATH: system_path }, timeout_ms: patience_ms },
  });
  return done.code === 0;
}
