/**
 * Runs inside the network of a run: connects to a port there, hands the connection to who started
 * it, and ends. Usage: connect-helper.ts PORT, with a channel to its parent.
 */
import { connect } from 'node:net';

const addresses = ['127.0.0.1', '::1'];

function attempt(port: number): void {
  const host = addresses.shift() ?? '';
  const socket = connect({ host, port });
  socket.once('error', (error: NodeJS.ErrnoException) => {
    if (addresses.length > 0) attempt(port);
    else process.send?.({ why: error.code ?? error.message }, undefined, {}, leave);
  });
  socket.once('connect', () => {
    // What it says already is for who gets it.
    socket.pause();
    process.send?.({ ok: true }, socket, {}, leave);
  });
}

function leave(): void {
  process.disconnect();
}

attempt(Number(process.argv[2]));
