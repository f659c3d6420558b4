/**
 * Codes of containers, their engine and their images: a part of the one table in ../reasons.ts.
 */
import type { Reason } from '../reasons.ts';

export const containerReasons = {
  docker_missing: {
    status: 409,
    sentence: 'There is no Docker Engine: {why}.',
    fix: 'bin/einsora doctor',
  },
  docker_denied: {
    status: 409,
    sentence: 'Docker is there, but this program may not use it: {why}.',
    fix: 'bin/einsora doctor',
  },
  docker_unusable: {
    status: 409,
    sentence: 'The Docker Engine cannot be used: {why}.',
    fix: 'bin/einsora doctor',
  },
  container_name_taken: {
    status: 409,
    sentence: 'A container {container}, which is not ours, stands in the way; it was left alone.',
    fix: 'docker rename {container} another-name, then: {again}',
  },
  volume_name_taken: {
    status: 409,
    sentence: 'A volume {volume}, which is not ours, stands in the way; it was left alone.',
    fix: 'docker volume inspect {volume}',
  },
  container_disk_full: {
    status: 507,
    sentence: "The disk of Docker's images and containers is full: {why}.",
    fix: 'see what takes the room: docker system df, then: {again}',
  },
  image_not_built: {
    status: 409,
    sentence: 'The image {image} is built on the machine that runs it, and is not there.',
    fix: 'sh deploy/images/build.sh {image}',
  },
  image_not_found: {
    status: 409,
    sentence: '{registry} has no image {image}, or it is private.',
    fix: 'check the name; a private one needs user:token, as: bin/einsora secrets set {secret}',
  },
  image_refused: {
    status: 409,
    sentence: 'The image {image} cannot run here: {why}.',
    fix: 'bin/einsora catalog',
  },
  image_pull_failed: {
    status: 409,
    sentence: '{image} could not be pulled, in {tries} tries: {why}.',
    fix: 'check the network, then: {again}',
  },
  fence_missing: {
    status: 409,
    sentence: 'Containers cannot be kept out of your network here: {why}.',
    fix: 'bin/einsora doctor',
  },
  gpu_not_injected: {
    status: 409,
    sentence: 'Docker cannot give a GPU to a container here: {why}.',
    fix: 'bin/einsora doctor',
  },
} as const satisfies Record<string, Reason>;
