/** Which folders lie on a network. */
import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { test } from 'node:test';
import { networkFolder, networkTypeOf } from './network-folder.ts';

const mounts = `
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /home rw,relatime shared:9 - nfs4 server:/home rw,vers=4.2
31 30 8:2 / /home/local rw,relatime - xfs /dev/sdb rw
32 22 0:41 / /mnt/my\\040share rw - cifs //server/share rw
33 22 0:42 / /ssh rw - fuse.sshfs ada@host: rw
34 22 0:43 / /fuse rw - fuse.ntfs-3g /dev/sdc rw
35 22 0:44 / /over rw - nfs server:/x rw
36 22 0:45 / /over rw - tmpfs tmpfs rw
`;

test('the mount that holds a folder decides, and the last of several at one place', () => {
  const of = (folder: string) => networkTypeOf(folder, mounts);
  assert.equal(of('/srv/einsora'), null);
  assert.equal(of('/home'), 'nfs4');
  assert.equal(of('/home/ada/.local/share/einsora'), 'nfs4');
  assert.equal(of('/home/local/einsora'), null);
  assert.equal(of('/homework'), null);
  assert.equal(of('/mnt/my share/x'), 'cifs');
  assert.equal(of('/ssh/x'), 'fuse.sshfs');
  assert.equal(of('/fuse/x'), null);
  assert.equal(of('/over/x'), null);
  assert.equal(networkTypeOf('/x', ''), null);
});

test('this machine keeps its temporary files on a disk or in memory', () => {
  assert.equal(networkFolder(tmpdir()), null);
});
