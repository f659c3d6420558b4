/**
 * How many tokens a question may take, guessed before an engine has seen it: to reserve them, and
 * to count the prompt of an answer that was cut before its engine told.
 *
 * Invariants: four bytes of text are one token, a token that was sent as a number is one, a picture
 * or a sound is a constant; what is no part of the prompt counts nothing; however deep a question
 * nests, it is read without recursion.
 */
import { type Fields, isFields } from '../whole/fields.ts';

const bytes_of_a_token = 4;
const tokens_of_media = 512;

/** What an engine reads. */
const prompt_fields = [
  ...['messages', 'prompt', 'suffix', 'input', 'instructions', 'tools', 'functions'],
  ...['query', 'documents'],
];
const media_fields = new Set(['image_url', 'input_audio', 'file', 'video_url']);

export function estimatePrompt(fields: Fields): number {
  const left: unknown[] = prompt_fields.map((name) => fields[name]);
  let [bytes, tokens] = [0, 0];
  while (left.length > 0) {
    const value = left.pop();
    if (typeof value === 'string') bytes += Buffer.byteLength(value);
    else if (typeof value === 'number') tokens += 1;
    else if (Array.isArray(value)) for (const item of value) left.push(item);
    else if (isFields(value)) {
      for (const [name, one] of Object.entries(value)) {
        if (media_fields.has(name)) tokens += tokens_of_media;
        else left.push(one);
      }
    }
  }
  return Math.ceil(bytes / bytes_of_a_token) + tokens;
}

/** How many choices answer each prompt. */
export function choicesOf({ n }: Fields): number {
  return Number.isSafeInteger(n) && Number(n) > 0 ? Number(n) : 1;
}

/** The most tokens that an answer may have, all its choices together; null where it is not said. */
export function mostTokens(fields: Fields): number | null {
  const { max_completion_tokens, max_tokens, max_output_tokens } = fields;
  const most = max_completion_tokens ?? max_tokens ?? max_output_tokens;
  if (!Number.isSafeInteger(most) || Number(most) < 0) return null;
  return Number(most) * choicesOf(fields);
}
