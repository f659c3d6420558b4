/**
 * A mutant: one text of src replaced by another (two where the program guards itself twice), so
 * that a bug which others have had is in it. The simulator must catch each; none of it is in src.
 */
export type Patch = {
  /** In the repository. */
  file: string;
  /** Is there exactly once. */
  find: string;
  replace: string;
};

export type Mutant = Patch & {
  /** As a bug report would call it, in kebab-case. */
  name: string;
  /** The invariant that it breaks, by number, and bugs that the field had. */
  bug: string;
  /** The other guard, where there are two. */
  also?: Patch;
  /** What goes wrong, in a sentence. */
  why: string;
};

export function patchesOf(mutant: Mutant): Patch[] {
  return mutant.also === undefined ? [mutant] : [mutant, mutant.also];
}

/** The text of a file with the patch in it. Throws where that is not clear. */
export function patch({ file, find, replace }: Patch, text: string): string {
  const parts = text.split(find);
  if (parts.length !== 2) {
    throw new Error(`what is to be replaced is ${parts.length - 1} times in ${file}: ${find}`);
  }
  return parts.join(replace);
}
