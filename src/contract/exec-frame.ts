/**
 * The frames in which the bytes of a program beside a run travel (contract/exec.ts says how). Apart
 * from the schemas, which a command line does without.
 */
export const exec_protocol = 'einsora.exec.v1';
export const exec_window_bytes = 512 * 1024;
/** Acknowledged no oftener than this, and no later. */
export const exec_ack_bytes = 64 * 1024;

export const channels = { stdin: 0, stdout: 1, stderr: 2 } as const;
export type Channel = keyof typeof channels;

export function frameOf(channel: Channel, bytes: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(bytes.length + 1);
  frame[0] = channels[channel];
  frame.set(bytes, 1);
  return frame;
}

/** The channel and bytes of a frame; null where it names no channel. */
export function readFrame(frame: Buffer): { channel: Channel; bytes: Buffer } | null {
  const names = Object.keys(channels) as Channel[];
  const channel = names.find((name) => channels[name] === frame[0]);
  return channel === undefined ? null : { channel, bytes: frame.subarray(1) };
}
