/**
 * The OpenAPI document of the API, made from the contract. docs/openapi.json is this, checked in.
 */
import type { Api } from './api.ts';

export function openApiDocument(app: Api): Record<string, unknown> {
  const document = app.getOpenAPI31Document({
    openapi: '3.1.0',
    info: {
      title: 'Einsora',
      version: '1',
      description:
        'The control plane of Einsora. Inference lives beside it on the same /v1 in OpenAI shapes.',
      license: { name: 'Apache-2.0' },
    },
  });
  return {
    ...document,
    components: {
      ...document.components,
      securitySchemes: {
        token: { type: 'http', scheme: 'bearer', description: 'An API token, `tsk_…`.' },
        session: { type: 'apiKey', in: 'cookie', name: 'einsora_session_<port>' },
      },
    },
  };
}
