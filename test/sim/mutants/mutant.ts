/**
 * A mutant: one text of one file of src replaced by another, so that a bug which others have had is
 * in the program. The simulator must catch each; none of it is in src.
 */
export type Mutant = {
  /** As a bug report would call it, in kebab-case. */
  name: string;
  /** The rule it breaks: an invariant by number, or a bug as the field knows it. */
  bug: string;
  /** In the repository. */
  file: string;
  /** Is there exactly once. */
  find: string;
  replace: string;
  /** What goes wrong, in a sentence. */
  why: string;
};

/** The text of its file with the mutant in it. Throws where that is not clear. */
export function mutate({ name, file, find, replace }: Mutant, text: string): string {
  const parts = text.split(find);
  if (parts.length !== 2) {
    throw new Error(`${name} replaces a text that is ${parts.length - 1} times in ${file}`);
  }
  return parts.join(replace);
}
