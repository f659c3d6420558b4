/**
 * Bytes that are one thing at their start and another for whoever reads them elsewhere.
 */
import { crc32 } from 'node:zlib';
import { safetensorsFile } from './safetensors-writer.ts';

/** A whole ZIP archive with one stored file. */
export function zipArchive(name: string, content: string): Buffer {
  const [path, data] = [Buffer.from(name), Buffer.from(content)];
  const common = Buffer.alloc(26);
  common.writeUInt16LE(20, 0);
  common.writeUInt32LE(crc32(data), 10);
  common.writeUInt32LE(data.length, 14);
  common.writeUInt32LE(data.length, 18);
  common.writeUInt16LE(path.length, 22);
  const local = Buffer.concat([Buffer.from('PK\x03\x04'), common, path, data]);
  const entry = Buffer.alloc(46 + path.length);
  entry.write('PK\x01\x02', 'latin1');
  entry.writeUInt16LE(20, 4);
  common.copy(entry, 6);
  path.copy(entry, 46);
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06', 'latin1');
  end.writeUInt16LE(1, 8);
  end.writeUInt16LE(1, 10);
  end.writeUInt32LE(entry.length, 12);
  end.writeUInt32LE(local.length, 16);
  return Buffer.concat([local, entry, end]);
}

/** What a pickle does that prints a word: `os.system('true')`. */
export const evil_pickle = "cos\nsystem\n(S'true'\ntR.";

/**
 * A whole safetensors file that is also a pickle: its length begins with the opcode `V`, whose text
 * goes on to the first line feed; the pickle's code stands behind it in the tensor.
 */
export function pickleAfter(header_length: number): Buffer {
  const data = Buffer.from(`\n0${evil_pickle}`);
  const tensors = { w: { dtype: 'U8', shape: [data.length] } };
  const entry = { ...tensors.w, data_offsets: [0, data.length] };
  const header = JSON.stringify({ w: entry }).padEnd(header_length);
  return safetensorsFile({ header, data });
}
