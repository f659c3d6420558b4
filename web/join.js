// Follows an invitation (/join) or a link that sets a new password (/reset). The secret stands in
// the fragment and is taken out of the address and the history before anything else happens.
import { post, showForm, takeSecret, tell, tellDone } from '/assets/forms.js';

const byId = (id) => document.getElementById(id);
const is_new = location.pathname === '/join';
const token = takeSecret(location.pathname);

byId('title').textContent = is_new ? 'Join' : 'Set a new password';
byId('submit').textContent = is_new ? 'Join' : 'Set it';
byId('naming').hidden = !is_new;
byId('name').required = is_new;

async function submit() {
  const password = byId('password').value;
  if (password !== byId('again').value) throw new Error('The two passwords are not the same.');
  if (!is_new) {
    await post('/v1/reset', { token, password });
    byId('form').hidden = true;
    return tellDone('The password is set, and every browser is signed out.');
  }
  const name = byId('name').value.trim();
  await post('/v1/join', { token, name, password });
  await post('/v1/session', { name, password });
  location.replace('/');
}

// What helps against a password that is refused is to type another one here.
function withoutCommand(error) {
  if (error.code === 'password_refused') error.fix = null;
  throw error;
}

if (token === null) tell('This page needs the whole link that you were given.');
else {
  showForm(is_new ? 'Joining…' : 'Setting it…', () => submit().catch(withoutCommand));
}
