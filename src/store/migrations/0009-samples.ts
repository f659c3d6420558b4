/**
 * The place of what runs use, sampled: its tables come with their own part.
 */
export const samples = {
  version: 9,
  name: 'samples',
  text: '',
} as const;
