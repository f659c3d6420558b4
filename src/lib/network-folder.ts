/**
 * Whether a folder lies on a network filesystem, where locks may not hold and a write that was
 * confirmed may be lost: https://sqlite.org/howtocorrupt.html
 */
import { readFileSync, realpathSync } from 'node:fs';

const network_types =
  /^(?:nfs\d?|cifs|smb\w*|afs|ceph|lustre|beegfs|glusterfs|davfs|(?:fuse\.)(?:sshfs|rclone|glusterfs|ceph|s3fs|gcsfuse|davfs2?|smbnetfs|nfs))$/;

/** The type of the network filesystem that holds an existing folder; null where it is a disk. */
export function networkFolder(folder: string): string | null {
  let mounts: string;
  try {
    mounts = readFileSync('/proc/self/mountinfo', 'utf8');
  } catch {
    return null; // Only Linux tells so; elsewhere nothing is refused.
  }
  return networkTypeOf(realpathSync(folder), mounts);
}

/** The same, from the text of `/proc/self/mountinfo`. A later mount hides the ones before it. */
export function networkTypeOf(folder: string, mounts: string): string | null {
  let type: string | null = null;
  let longest = -1;
  for (const line of mounts.split('\n')) {
    const [place, kind] = line.split(' - ');
    const mounted = place
      ?.split(' ')[4]
      ?.replace(/\\(\d{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
    if (mounted === undefined || kind === undefined) continue;
    const within = mounted === '/' || folder === mounted || folder.startsWith(`${mounted}/`);
    if (!within || mounted.length < longest) continue;
    longest = mounted.length;
    type = kind.split(' ')[0] ?? null;
  }
  return type !== null && network_types.test(type) ? type : null;
}
