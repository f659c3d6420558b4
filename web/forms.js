// What the pages share that take a secret: from the address, or from a form.
import { call } from '/assets/ask.js';

const byId = (id) => document.getElementById(id);

/** The secret of a one-time link, taken out of the address and the history; null without one. */
export function takeSecret(path) {
  const secret = new URLSearchParams(location.hash.slice(1)).get('t');
  history.replaceState(null, '', path);
  return secret;
}

/** Says one thing, and the command that helps. */
export function tell(text, fix) {
  const notice = byId('notice');
  notice.replaceChildren(text);
  if (!fix) return;
  const code = document.createElement('code');
  code.textContent = fix;
  notice.append(' ', code);
}

/** Says that it is done, and where to sign in. */
export function tellDone(text) {
  const link = document.createElement('a');
  link.href = '/sign-in';
  link.textContent = 'Sign in';
  byId('notice').replaceChildren(text, ' ', link);
  link.focus();
}

/** Posts to the API; throws an error that can be shown where it is refused. */
export const post = (path, body) => call('POST', path, body);

/** Shows the form; `submit` is called with each try, one at a time. */
export function showForm(busy_text, submit) {
  const form = byId('form');
  const button = byId('submit');
  form.hidden = false;
  form.querySelector('input').focus();
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    button.disabled = true;
    tell(busy_text);
    try {
      await submit();
    } catch (error) {
      tell(error.message, error.fix);
    }
    button.disabled = false;
    // A button loses the keyboard while it is disabled: the next try begins at the password.
    if (document.activeElement === document.body) form.querySelector('[type=password]').focus();
  });
}
