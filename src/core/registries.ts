/**
 * Registries of images, and the secret of a tenant by which one signs in there.
 *
 * Invariants: pure; the secret of one registry is never sent to another.
 */

/** The registry that an image's name leads to, as people call it. */
export function registryOf(reference: string): string {
  const [first = ''] = reference.split('/');
  const is_host = reference.includes('/') && (/[.:]/.test(first) || first === 'localhost');
  return is_host ? first : 'docker.io';
}

/** `registry-ghcr-io`: its value is `user:token`. */
export function registrySecret(registry: string): string {
  const name = registry.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-');
  return `registry-${name}`.slice(0, 63).replace(/-+$/, '');
}
