// Signs in by the one-time link, or by name and password. The link's secret stands in the fragment,
// which no server and no log sees; it is taken out of the address and the history before anything
// else happens. What the server says is written as text, never as markup.
import { post, showForm, takeSecret, tell } from '/assets/forms.js';

const secret = takeSecret('/sign-in');
const byId = (id) => document.getElementById(id);

async function signIn(body) {
  await post('/v1/session', body);
  location.replace('/');
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
