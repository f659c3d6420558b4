/**
 * What a plain https server means by an answer that is not the file asked for.
 */
import { SourceError, shownUrl } from './source-error.ts';
import { type Answer, type Net, retryAfter } from './source-http.ts';

/** `asked` is the URL before redirects: what a user can try. */
export function refusalOf(net: Net, answer: Answer, asked: URL, what: string): SourceError {
  const { status } = answer;
  const { host } = answer.url;
  const details = { host, url: shownUrl(asked), what, file: what, status };
  if (status === 404 || status === 410) return new SourceError('source_not_found', details);
  const elsewhere = answer.url.origin !== asked.origin;
  if (status === 401 || status === 403) {
    // A signed address that has run out is signed anew at the next try.
    return new SourceError('source_access_refused', details, { temporary: elsewhere });
  }
  return new SourceError('source_failing', details, {
    temporary: status >= 500 || status === 429 || status === 408,
    retry_after_ms: retryAfter(net, answer),
  });
}
