/**
 * Small wheels for tests: a real wheel file in a folder that pip takes packages from, and its pin.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { WheelPin } from '../../src/lib/wheel.ts';

/** Writes `<name>-1.0-py3-none-any.whl` with these files into the folder and returns its pin. */
export function makeWheel(
  folder: string,
  name: string,
  files: Record<string, string | Uint8Array>,
): WheelPin {
  const module = name.replaceAll('-', '_');
  const info = `${module}-1.0.dist-info`;
  const all: Record<string, string | Uint8Array> = {
    ...files,
    [`${info}/METADATA`]: `Metadata-Version: 2.1\nName: ${name}\nVersion: 1.0\n`,
    [`${info}/WHEEL`]:
      'Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
  };
  const names = [...Object.keys(all), `${info}/RECORD`];
  all[`${info}/RECORD`] = names.map((path) => `${path},,\n`).join('');
  const wheel = zip(all);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${module}-1.0-py3-none-any.whl`), wheel);
  const sha256 = createHash('sha256').update(wheel).digest('hex');
  const unpacked_bytes = Object.values(all).reduce(
    (sum, data) => sum + Buffer.from(data).length,
    0,
  );
  return { name, version: '1.0', builds: { any: { sha256, bytes: wheel.length, unpacked_bytes } } };
}

/** A ZIP archive of stored (not compressed) files. */
function zip(files: Record<string, string | Uint8Array>): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const [name, content] of Object.entries(files)) {
    const data = Buffer.from(content);
    const path = Buffer.from(name);
    // Version, flags, method, time, date (1980-01-01), sum, sizes, length of the name, no extras.
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0);
    common.writeUInt16LE(0x21, 8);
    common.writeUInt32LE(crc32(data), 10);
    common.writeUInt32LE(data.length, 14);
    common.writeUInt32LE(data.length, 18);
    common.writeUInt16LE(path.length, 22);
    const local = Buffer.concat([Buffer.from('PK\x03\x04', 'latin1'), common, path, data]);
    const rest = Buffer.alloc(14);
    rest.writeUInt32LE((0o100644 << 16) >>> 0, 6);
    rest.writeUInt32LE(offset, 10);
    const made_by = Buffer.from([20, 3]);
    directory.push(Buffer.from('PK\x01\x02', 'latin1'), made_by, common, rest, path);
    parts.push(local);
    offset += local.length;
  }
  const index = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06', 0, 'latin1');
  const count = Object.keys(files).length;
  end.writeUInt16LE(count, 8);
  end.writeUInt16LE(count, 10);
  end.writeUInt32LE(index.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...parts, index, end]);
}
