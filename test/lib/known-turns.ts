/**
 * Synthetic models that say more than a text, always the same: two calls of tools, or a thought and
 * then the answer; for tests that need a real engine to make something of them.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ggufFile } from './gguf-writer.ts';
import { successorModel } from './known-answer.ts';

const parameters = (name: string) => ({
  ...{ type: 'object', properties: { [name]: { type: 'string' } }, required: [name] },
});

/** As a client names them. */
export const known_tools = [
  { type: 'function', function: { name: 'weather', parameters: parameters('city') } },
  { type: 'function', function: { name: 'time', parameters: parameters('zone') } },
] as const;

export const known_calls = [
  { name: 'weather', arguments: '{"city": "Paris"}' },
  { name: 'time', arguments: '{"zone": "CET"}' },
] as const;

export const known_thought = { reasoning_content: 'Who asks?\n', content: 'My friend.' };

/** Calls both tools, one after the other. */
export function writeTwoCallsModel(path: string): void {
  // No two words are alike, for each is a token.
  write(path, [
    ...['<tool_call>\n', '{"name":', '▁"weather",', '▁"arguments":', '▁{"city":', '▁"Paris"'],
    ...['}}', '\n</tool_call>', '\n<tool_call>\n{"name":', '▁"time",'],
    ...['▁"arguments":▁{"zone":', '▁"CET"', '}}\n</tool_call>'],
  ]);
}

export function writeThinkingModel(path: string): void {
  write(path, ['<think>\n', 'Who', '▁asks?', '\n</think>\n\n', 'My', '▁friend.']);
}

function write(path: string, words: readonly string[]): void {
  const template = readFileSync(join(import.meta.dirname, 'honest/templates/qwen3.jinja'), 'utf8');
  const model = { name: 'turns', words, template, ends: true, width: 384, blocks: 1 };
  writeFileSync(path, ggufFile(successorModel(model)));
}
