/**
 * A certificate for 127.0.0.1 and localhost that is made on the spot and signed by itself, for
 * servers of tests.
 *
 * Invariants: its key leaves the process nowhere; it is valid from long ago to far ahead, whatever
 * the clock says.
 */
import { createPrivateKey, generateKeyPairSync, sign } from 'node:crypto';

export type TestCertificate = { key: string; cert: string };

export function testCertificate(): TestCertificate {
  const pair = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    publicKeyEncoding: { type: 'spki', format: 'der' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  const ecdsa_sha256 = sequence(oid('2a8648ce3d040302'));
  const name = sequence(tag(0x31, sequence(oid('550403'), tag(0x0c, Buffer.from('einsora test')))));
  const time = (text: string) => tag(0x18, Buffer.from(text));
  const names = sequence(
    tag(0x82, Buffer.from('localhost')),
    tag(0x87, Buffer.from([127, 0, 0, 1])),
  );
  const extensions = sequence(
    sequence(oid('551d11'), tag(0x04, names)),
    sequence(oid('551d13'), tag(0x01, Buffer.from([0xff])), tag(0x04, sequence(tag(1, yes)))),
  );
  const body = sequence(
    tag(0xa0, tag(0x02, Buffer.from([2]))),
    tag(0x02, Buffer.from([1, 2, 3, 4])),
    ecdsa_sha256,
    name,
    sequence(time('20000101000000Z'), time('21000101000000Z')),
    name,
    pair.publicKey,
    tag(0xa3, extensions),
  );
  const signature = sign('sha256', body, createPrivateKey(pair.privateKey));
  const der = sequence(body, ecdsa_sha256, tag(0x03, Buffer.concat([Buffer.from([0]), signature])));
  const lines = der.toString('base64').match(/.{1,64}/g) ?? [];
  const edge = (word: string) => `-----${word} CERTIFICATE-----`;
  return { key: pair.privateKey, cert: [edge('BEGIN'), ...lines, edge('END'), ''].join('\n') };
}

const yes = Buffer.from([0xff]);

function tag(number: number, content: Buffer): Buffer {
  const { length } = content;
  const size =
    length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([number, ...size]), content]);
}

function sequence(...parts: Buffer[]): Buffer {
  return tag(0x30, Buffer.concat(parts));
}

function oid(hex: string): Buffer {
  return tag(0x06, Buffer.from(hex, 'hex'));
}
