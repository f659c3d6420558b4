/**
 * A synthetic model that always calls the same two tools, for tests that need real calls of an
 * engine: the known-answer model with other words, and a chat template that has tools.
 */
import { writeFileSync } from 'node:fs';
import { entry, ggufFile } from './gguf-writer.ts';
import { successorModel } from './known-answer.ts';

/** No two alike, for each is a token. */
const words = [
  ...['<tool_call>\n', '{"name":', '▁"weather",', '▁"arguments":', '▁{"city":', '▁"Paris"', '}}'],
  ...['\n</tool_call>', '\n<tool_call>\n{"name":', '▁"time",', '▁"arguments":▁{"zone":'],
  ...['▁"CET"', '}}\n</tool_call>'],
];

const chat_template = `
{%- if tools %}
  {{- '<|im_start|>system\\n<tools>' }}
  {%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}
  {{- '\\n</tools>\\nFor each call return a json object within <tool_call></tool_call>:\\n' }}
  {{- '<tool_call>\\n{"name": <name>, "arguments": <object>}\\n</tool_call><|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
  {%- if message.role == 'assistant' and message.tool_calls %}
    {{- '<|im_start|>assistant' }}
    {%- if message.content %}{{- '\\n' + message.content }}{%- endif %}
    {%- for tool_call in message.tool_calls %}
      {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
      {{- '\\n<tool_call>\\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}
      {{- tool_call.arguments | tojson }}{{- '}\\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
  {%- elif message.role == 'tool' %}
    {{- '<|im_start|>user\\n<tool_response>\\n' + message.content }}
    {{- '\\n</tool_response><|im_end|>\\n' }}
  {%- else %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}`;

const parameters = (name: string) => ({
  ...{ type: 'object', properties: { [name]: { type: 'string' } }, required: [name] },
});

/** As a client names them. */
export const known_tools = [
  { type: 'function', function: { name: 'weather', parameters: parameters('city') } },
  { type: 'function', function: { name: 'time', parameters: parameters('zone') } },
] as const;

/** What is called, in this order. */
export const known_calls = [
  { name: 'weather', arguments: '{"city": "Paris"}' },
  { name: 'time', arguments: '{"zone": "CET"}' },
] as const;

export function writeToolModel(path: string): void {
  const model = successorModel({ name: 'tools', words, ends: true, width: 384, blocks: 1 });
  const entries = model.entries.map((one) =>
    one.key === 'tokenizer.chat_template' ? entry.string(one.key, chat_template) : one,
  );
  writeFileSync(path, ggufFile({ ...model, entries }));
}
