// Signs in by the one-time link, or by name and password. The link's secret stands in the fragment,
// which no server and no log sees; it is taken out of the address and the history before anything
// else happens. What the server says is written as text, never as markup.
import { post, showForm, takeSecret, tell } from '/assets/forms.js';

const next = nextPage();
const secret = takeSecret('/sign-in');
const byId = (id) => document.getElementById(id);

async function signIn(body) {
  await post('/v1/session', body);
  location.replace(next);
}

/** Where to go then: a page that opens a workload, or that of keys, and no other address. */
function nextPage() {
  const given = [location.hash.slice(1), location.search].map((text) => new URLSearchParams(text));
  const asked = given.map((one) => one.get('next')).find((one) => one !== null) ?? '';
  return /^\/(?:keys|open\/[0-9a-z]{26})$/.test(asked) ? asked : '/';
}

function askForPassword() {
  byId('help').hidden = false;
  showForm('Signing in…', () =>
    signIn({ name: byId('name').value.trim(), password: byId('password').value }),
  );
}

if (secret === null) {
  tell('');
  askForPassword();
} else {
  signIn({ token: secret }).catch((error) => {
    tell(error.message, error.fix);
    askForPassword();
  });
}
