/**
 * Names of images, as people write them and as the engine is asked for them.
 *
 * Invariants: pure; a name without a tag means `latest`, never every tag there is.
 */

/** What the engine's pull is asked for: a repository, and a tag or a digest of it. */
export type PullTarget = { repository: string; tag: string };

export function pullTargetOf(reference: string): PullTarget {
  const at = reference.indexOf('@');
  const named = at < 0 ? reference : reference.slice(0, at);
  const colon = named.lastIndexOf(':');
  // A colon before a slash belongs to a port of the registry.
  const has_tag = colon > named.lastIndexOf('/');
  const repository = has_tag ? named.slice(0, colon) : named;
  if (at >= 0) return { repository, tag: reference.slice(at + 1) };
  return { repository, tag: has_tag ? named.slice(colon + 1) : 'latest' };
}

/** Such an image is built on the machine, and no registry is asked for it. */
export function isBuiltHere(reference: string): boolean {
  return reference.startsWith('localhost/');
}
