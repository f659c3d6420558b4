// Exchanges the one-time link for a session. The secret stands in the fragment, which no server and no
// log sees; it is taken out of the address and the history before anything else happens.
const secret = new URLSearchParams(location.hash.slice(1)).get('t') ?? '';
history.replaceState(null, '', '/sign-in');
const notice = document.getElementById('notice');

async function signIn() {
  const answer = await fetch('/v1/session', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token: secret }),
  });
  if (answer.ok) return location.replace('/');
  const { error } = await answer.json();
  notice.textContent = `${error.message} For a new one: ${error.fix ?? 'bin/einsora open'}`;
}

signIn().catch(() => {
  notice.textContent = 'The control plane does not answer. Start it with: bin/einsora up';
});
